"""What an ensemble is exported as, and what it is not."""

import numpy as np
import pytest

import relative_attention as ra
from tests.export.fresh_process import serve
from tests.several_models import SENTENCES


@pytest.mark.parametrize(
    "dtype",
    [
        pytest.param("float32", marks=pytest.mark.large),
        pytest.param("float16", marks=pytest.mark.slow),
    ],
)
def test_saved_model_translates_as_the_ensemble(several, dtype, tmp_path):
    folders = [several / "a", several / "c"]
    translator = ra.load_translator(folders)
    ra.export_saved_model(translator, tmp_path / "exported", dtype=dtype)
    answers = serve(
        tmp_path / "exported",
        {"text": ("serving_default", SENTENCES)},
        "with_text",
    )
    wanted = ra.load_translator(folders)
    for weight in wanted.model.weights:
        weight.assign(np.asarray(weight).astype(dtype))
    wanted = wanted.search(SENTENCES)
    assert answers["text"]["translations"] == [t.text for t in wanted]
    assert answers["text"]["scores"] == pytest.approx(
        [t.score for t in wanted], abs=1e-4
    )
    # Both models are in the file, each in its dtype.
    size = sum(f.stat().st_size for f in tmp_path.rglob("variables.data*"))
    num_bytes = {"float32": 4, "float16": 2}[dtype]
    count = sum(model.count_params() for model in translator.model.models)
    assert size > num_bytes * count


def test_weight_of_any_member_must_be_finite(several, tmp_path):
    translator = ra.load_translator([several / "a", several / "b"])
    # Both have a weight of this name.
    first = translator.model.models[0].encoder_blocks[0].feed_forward
    first.output_dense.bias.assign(first.output_dense.bias + float("nan"))
    with pytest.raises(ra.InputError, match="of model 1 holds nan or inf"):
        ra.export_saved_model(translator, tmp_path / "exported")
    assert not list(tmp_path.iterdir())


def test_ctranslate2_refuses_an_ensemble_in_one_line(joined, tmp_path):
    pytest.importorskip("ctranslate2")
    with pytest.raises(ra.InputError, match="Received: Ensemble") as error:
        ra.export_ctranslate2(joined, tmp_path / "exported")
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


def test_picture_of_an_ensemble_is_refused(joined, tmp_path):
    pytest.importorskip("matplotlib")
    from relative_attention.plot import model_picture

    with pytest.raises(ra.InputError, match="Attention .* Ensemble"):
        model_picture(joined, "two red dogs", tmp_path / "picture.png")
