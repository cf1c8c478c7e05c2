"""Commands on a model that diverged, or outgrew half precision."""

import shutil

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.models.weights import load_arrays
from relative_attention.models.weights import save_arrays

NAME = "decoder_block_0/feed_forward/output/bias"


@pytest.fixture
def model_with(trained, tmp_path):
    """`model_with(value)`: the shared run's folder, with one such weight."""

    def write(value):
        folder = tmp_path / "model"
        shutil.copytree(trained, folder)
        arrays = load_arrays(folder / "model.safetensors")
        (name,) = (name for name in arrays if name.endswith(NAME))
        arrays[name] = arrays[name].copy()
        arrays[name][2] = value
        save_arrays(arrays, folder / "model.safetensors")
        return folder

    return write


def check_refused(status, out, err, message):
    assert (status, out) == (1, "")
    assert err.startswith("relative-attention: ") and err.count("\n") == 1
    assert NAME in err and message in err


@pytest.mark.large
def test_weight_that_is_no_number_is_an_error(run, model_with, corpus):
    folder = model_with(np.nan)
    message = "weights of the model must be finite"
    check_refused(*run("translate", folder, stdin=b"yes\n"), message)
    check_refused(
        *run("translate", folder, "--sample", "--seed=1", stdin=b"yes\n"),
        message,
    )
    check_refused(
        *run(
            "score",
            folder,
            "--source",
            corpus / "test.en",
            "--target",
            corpus / "test.de",
        ),
        message,
    )


@pytest.mark.parametrize(
    ("value", "options", "message"),
    [
        (1e5, ["saved_model", "--dtype=float16"], "magnitude of 100000"),
        (1e5, ["model", "--dtype=float16"], "magnitude of 100000"),
        (np.nan, ["saved_model"], "nan or inf"),
        (np.inf, ["model"], "nan or inf"),
    ],
    ids=str,
)
def test_export_refuses_before_it_writes(
    value, options, message, run, model_with, tmp_path
):
    result = run(
        "export", model_with(value), tmp_path / "out", "--format", *options
    )
    check_refused(*result, message)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "quantization",
    ["float16", pytest.param("int8", marks=pytest.mark.large), None],
)
def test_export_for_ctranslate2_refuses_before_it_writes(
    quantization, model_with, tmp_path
):
    pytest.importorskip("ctranslate2")
    translator = ra.load_translator(
        model_with(1e5 if quantization == "float16" else np.nan)
    )
    with pytest.raises(ra.InputError, match="ffn/linear_1/bias|cannot"):
        ra.export_ctranslate2(
            translator, tmp_path / "out", quantization=quantization
        )
    assert not (tmp_path / "out").exists()


def test_adapted_model_is_saved_as_a_plain_one(trained, tmp_path):
    translator = ra.load_translator(trained)
    layer = translator.model.decoder_blocks[0].feed_forward.output_dense
    layer.enable_lora(2)
    layer.lora_kernel_b.assign(np.ones(layer.lora_kernel_b.shape))
    ra.save_translator(translator, tmp_path / "saved")
    loaded = ra.load_translator(tmp_path / "saved")
    pair = ["two cats and six dogs"], ["zwei"]
    (score,) = ra.score_translations(loaded, *pair)
    (expected,) = ra.score_translations(translator, *pair)
    assert score.log_probability == pytest.approx(
        expected.log_probability, abs=1e-5
    )
