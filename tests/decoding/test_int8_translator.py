"""A translator of an int8 model searches and is exported as others."""

import numpy as np
import pytest

import relative_attention as ra
from tests.small_models import make_model
from tests.small_models import train_vocabulary

pytestmark = pytest.mark.int8

SENTENCES = ["a man rides the bike", "two red dogs"]


@pytest.fixture
def translator():
    return ra.Translator(
        make_model(np.random.default_rng(5)),
        train_vocabulary(281),
        num_beams=2,
        length_penalty=0.0,
        max_extra_length=3,
    )


def test_steps_give_the_logits_and_folders_are_refused(translator, tmp_path):
    model = translator.model
    model.quantize("int8")
    inputs = {
        "source_token_ids": np.array([[5, 270, 9, 1]]),
        "target_token_ids": np.array([[0, 8, 31, 7]]),
    }
    logits = np.asarray(model(inputs))
    # One position after the other, from the cache.
    cache = model.start_cache(inputs["source_token_ids"])
    for position in range(4):
        step, cache = model.decode_step(
            inputs["target_token_ids"][:, [position]], cache, position
        )
        np.testing.assert_allclose(
            np.asarray(step)[:, 0], logits[:, position], atol=2e-4
        )
    with pytest.raises(ra.InputError, match="must not be quantized"):
        ra.save_translator(translator, tmp_path / "folder")
    assert not list(tmp_path.iterdir())
    pytest.importorskip("ctranslate2", reason="the extra is missing")
    with pytest.raises(ra.InputError, match="quantizes it itself"):
        ra.export_ctranslate2(translator, tmp_path / "engine")
    assert not list(tmp_path.iterdir())


@pytest.mark.large
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_saved_model_translates_as_the_translator(translator, tmp_path, dtype):
    import tensorflow as tf

    sizes = []
    for folder in (tmp_path / "floats", tmp_path / "int8"):
        if folder.name == "int8":
            translator.model.quantize("int8")
        ra.export_saved_model(translator, folder, dtype)
        variables = folder / "variables/variables.data-00000-of-00001"
        sizes.append(variables.stat().st_size)
    found = translator.search(SENTENCES)
    served = tf.saved_model.load(folder).signatures["serving_default"](
        sentences=tf.constant(SENTENCES)
    )
    texts = [text.decode() for text in served["translations"].numpy()]
    assert texts == [t.text for t in found]
    np.testing.assert_allclose(
        served["scores"].numpy(),
        [t.score for t in found],
        atol=1e-4 if dtype == "float32" else 1e-1,
    )
    assert sizes[1] < 0.75 * sizes[0]
