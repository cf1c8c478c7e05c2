"""`relative-attention average` and `export`."""

import functools
import re
import shutil

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.models.weights import load_arrays
from relative_attention.models.weights import save_arrays
from tests.cli.conftest import check_refused


def names(folder):
    return sorted(path.name for path in folder.rglob("*"))


@pytest.fixture
def copy(trained, tmp_path):
    """A finished run that may be changed, with three checkpoints."""
    return shutil.copytree(trained, tmp_path / "run")


# === average ===


@pytest.fixture
def average(run):
    return functools.partial(run, "average")


def assert_is_mean(path, directory, steps):
    parts = [
        load_arrays(
            directory / "checkpoints" / f"step-{step:08}" / "model.safetensors"
        )
        for step in steps
    ]
    arrays = load_arrays(path)
    assert arrays.keys() == parts[0].keys()
    for name, array in arrays.items():
        mean = np.mean([part[name] for part in parts], axis=0, dtype="float64")
        np.testing.assert_allclose(array, mean, rtol=1e-6, atol=1e-9)


def test_average_writes_a_model_of_the_last_checkpoints(
    average, trained, tmp_path
):
    output = tmp_path / "mean"
    before = names(trained)
    status, out, err = average(trained, "--last", 2, "--output", output)
    assert (status, out) == (0, f"model: {output}\n"), err
    assert_is_mean(output / "model.safetensors", trained, [8, 12])
    assert re.match(r"validation loss: \d\.\d+, of the run's best", err)
    assert (output / "average.txt").read_text().splitlines() == [
        str(trained / "checkpoints" / f"step-{step:08}") for step in (8, 12)
    ]
    assert ra.load_translator(output).max_extra_length == 5
    assert names(trained) == before


def test_average_is_beside_the_run_or_in_place(average, copy):
    best = (copy / "best.safetensors").read_bytes()
    beside = copy.with_name("run_average_3")
    status, out, err = average(copy)
    assert (status, out) == (0, f"model: {beside}\n"), err
    assert (copy / "results.json").is_file()
    status, out, err = average(copy, "--last=3", "--in-place")
    assert (status, out) == (0, f"weights: {copy / 'model.safetensors'}\n")
    for output in (beside, copy):
        assert_is_mean(output / "model.safetensors", copy, [4, 8, 12])
    assert (copy / "best.safetensors").read_bytes() == best
    # Its scores were those of other weights.
    assert not (copy / "results.json").exists()
    ra.load_translator(copy)


def test_average_writes_only_weights_to_a_file(average, trained, tmp_path):
    output = tmp_path / "mean.safetensors"
    checkpoints = trained / "checkpoints"
    one, two = checkpoints / "step-00000008", checkpoints / "step-00000012"
    for what in ([trained, "--last=2"], [one / "model.safetensors", two]):
        status, out, err = average(*what, "--output", output)
        assert (status, out) == (0, f"weights: {output}\n"), err
        assert_is_mean(output, trained, [8, 12])
        output.unlink()


def test_nothing_is_written_when_averaging_is_refused(average, copy, tmp_path):
    other = tmp_path / "file"
    other.touch()
    before = names(tmp_path)
    best = copy / "best.safetensors"
    for words, message in (
        ([copy, "--last=4"], "at most 3, the number of checkpoints that"),
        ([copy, "--output", copy], "is there already"),
        ([copy, copy, "--last=2"], "for the checkpoints of one run"),
        ([copy, copy, "--output=x"], "must be a `.safetensors` file"),
        ([copy, best, "--output", best], "is one of the files to average"),
        ([copy, "--output", best], "is in the run, whose files are kept"),
        (
            ["tatoeba_en_de", "tatoeba_en_fr", "--output=x.safetensors"],
            "the same vocabulary to be averaged",
        ),
        ([copy, "--output", other / "x"], "is no folder"),
    ):
        check_refused(average(*words), message)
        assert names(tmp_path) == before
    last = copy / "checkpoints" / "step-00000012" / "model.safetensors"
    (last.parent / "state.json").unlink()
    arrays = load_arrays(last)
    next(iter(arrays.values()))[...] = np.nan
    save_arrays(arrays, last)
    for words in ([copy, "--in-place"], [copy]):
        check_refused(average(*words), "step-00000012.* cannot be averaged")
    assert load_arrays(copy / "model.safetensors").keys() == arrays.keys()
    shutil.rmtree(copy / "checkpoints")
    check_refused(average(copy), "has no checkpoints")


# === export ===


@pytest.mark.usefixtures("load_once")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("saved_model --nbest 99", "Received: 99. --num-beams asks for more"),
        ("saved_model --quantization int8", "--quantization does not apply to"),
        ("saved_model --warmup absent", "No such file: absent"),
        ("ctranslate2 --token-ids-only", "takes --quantization."),
    ],
)
def test_invalid_export_is_refused(arguments, message, run, model, tmp_path):
    folder = tmp_path / "new" / "1"
    words = arguments.split()
    check_refused(run("export", model, folder, "--format", *words), message)
    two_models = run("export", "a", "b", folder, "--format=model")
    check_refused(two_models, "format model takes one model.*a, b")
    assert not list(tmp_path.iterdir())


# === A model that diverged, or outgrew half precision ===


@pytest.fixture
def model_with(copy):
    """`model_with(value)`: the shared run's folder, with one such weight."""

    def write(value):
        arrays = load_arrays(copy / "model.safetensors")
        end = "decoder_block_0/feed_forward/output/bias"
        (name,) = (name for name in arrays if name.endswith(end))
        arrays[name] = arrays[name].copy()
        arrays[name][2] = value
        save_arrays(arrays, copy / "model.safetensors")
        return copy

    return write


@pytest.mark.parametrize(
    ("value", "options", "message"),
    [
        (1e5, "saved_model --dtype=float16", "output/bias.*magnitude of 1000"),
        (np.inf, "model", "output/bias.*nan or inf"),
        (1e5, "ctranslate2 --quantization=float16", "ffn/linear_1/bias"),
    ],
    ids=str,
)
def test_export_refuses_before_it_writes(
    value, options, message, run, model_with, tmp_path
):
    if "ctranslate2" in options:
        pytest.importorskip("ctranslate2")
    output = tmp_path / "out"
    words = options.split()
    result = run("export", model_with(value), output, "--format", *words)
    check_refused(result, message)
    assert not output.exists()
