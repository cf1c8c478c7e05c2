"""Two processes and one run. A lock keeps out its own process just as well."""

import os

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.files import lock_directory
from relative_attention.models.weights import load_arrays
from relative_attention.models.weights import save_arrays
from relative_attention.runs.run_directory import claim_run_directory
from relative_attention.runs.run_directory import write_record
from relative_attention.saving.model_directory import save_config
from tests.cli.conftest import check_refused
from tests.runs.conftest import snapshot


@pytest.mark.parametrize(
    "arguments",
    [{"resume": True}, {"overwrite": True}, {}],
    ids=["resume", "overwrite", "neither"],
)
def test_second_process_changes_nothing(arguments, recipe, corpus, tmp_path):
    output = tmp_path / "run"
    output.mkdir()
    recipe.save(output / "recipe.yaml")
    write_record(output, {})
    with lock_directory(output):
        before = snapshot(output)
        with pytest.raises(ra.InputError) as raised:
            ra.train(recipe, output, data_directory=corpus, **arguments)
        assert snapshot(output) == before
    assert f"process {os.getpid()} on " in str(raised.value)
    assert str(output) in str(raised.value)


def test_link_to_a_folder_that_is_not_there_is_named(recipe, corpus, tmp_path):
    (tmp_path / "run").symlink_to(tmp_path / "absent")
    with pytest.raises(ra.InputError, match="run is a link to .*absent, which"):
        ra.train(recipe, tmp_path / "run", data_directory=corpus)


@pytest.fixture
def averaged(recipe, tmp_path):
    """A run, as far as averages read it."""
    folder = tmp_path / "run"
    for step, value in ((1, 2.0), (2, 4.0)):
        checkpoint = folder / "checkpoints" / f"step-{step:08}"
        checkpoint.mkdir(parents=True)
        array = np.full(3, value, "float32")
        save_arrays({"weight": array}, checkpoint / "model.safetensors")
    save_config(recipe.model_config(5), recipe.decoding, folder)
    tokens = ["<blank>", "</s>", "<s>", "a", "<unk>"]
    ra.TokenVocabulary(tokens).save(folder / "vocabulary.tokens")
    return folder


def test_run_that_is_written_is_not_averaged_in_place(averaged, run):
    with lock_directory(averaged):
        before = snapshot(averaged)
        result = run("average", averaged, "--in-place")
        check_refused(result, "is writing .*Wait until")
        assert snapshot(averaged) == before
        # Which leaves the run as it is.
        assert run("average", averaged)[0] == 0
    mean = averaged.with_name("run_average_2") / "model.safetensors"
    assert load_arrays(mean)["weight"].tolist() == [3.0, 3.0, 3.0]


def test_overwriting_keeps_the_lock(recipe, tmp_path):
    with lock_directory(tmp_path):
        claim_run_directory(tmp_path, recipe)
        (tmp_path / "checkpoints").mkdir()
        (tmp_path / "history.json").write_text("[]")
        claim_run_directory(tmp_path, recipe, overwrite=True)
        assert not (tmp_path / "history.json").exists()
        with pytest.raises(ra.InputError, match="Another process"):
            with lock_directory(tmp_path):
                pass
