"""A translator of an int8 model searches, scores and is exported as others."""

import keras
import numpy as np
import pytest

import relative_attention as ra
from tests.export.tiny_models import make_model
from tests.export.tiny_models import train_vocabulary

pytestmark = pytest.mark.int8

SENTENCES = ["a man rides the bike", "two red dogs"]


@pytest.fixture(autouse=True)
def no_collection(monkeypatch):
    # Keras collects garbage: seconds, after hundreds of other tests.
    monkeypatch.setattr("gc.collect", lambda: 0)


@pytest.fixture(scope="module")
def vocabulary():
    return train_vocabulary(281)


@pytest.fixture
def translator(vocabulary):
    model = make_model(np.random.default_rng(5))
    return ra.Translator(
        model, vocabulary, num_beams=2, length_penalty=0.0, max_extra_length=3
    )


@pytest.mark.parametrize(
    "options",
    [{}, {"activation_quantizer": None}],
    ids=["weights_and_inputs", "weights"],
)
def test_steps_of_decoding_give_the_logits_of_the_model(translator, options):
    config = keras.quantizers.Int8QuantizationConfig(**options)
    translator.model.quantize(config=config)
    inputs = {
        "source_token_ids": np.array([[5, 270, 9, 1]]),
        "target_token_ids": np.array([[0, 8, 31, 7]]),
    }
    logits = np.asarray(translator.model(inputs))
    # One position after the other, from the cache.
    cache = translator.model.start_cache(inputs["source_token_ids"])
    for position in range(4):
        step, cache = translator.model.decode_step(
            inputs["target_token_ids"][:, [position]], cache, position
        )
        np.testing.assert_allclose(
            np.asarray(step)[:, 0], logits[:, position], atol=2e-4
        )


def test_what_cannot_be_of_int8_is_refused_in_one_line(translator, tmp_path):
    pytest.importorskip("ctranslate2", reason="the extra is missing")
    translator.model.quantize("int8")
    with pytest.raises(ra.InputError, match="must not be quantized"):
        ra.save_translator(translator, tmp_path / "folder")
    with pytest.raises(ra.InputError, match="quantizes it itself") as error:
        ra.export_ctranslate2(translator, tmp_path / "engine")
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.large
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_saved_model_translates_as_the_translator(translator, tmp_path, dtype):
    import tensorflow as tf

    sizes = []
    for is_int8 in (False, True):
        if is_int8:
            translator.model.quantize("int8")
        folder = tmp_path / str(is_int8)
        ra.export_saved_model(translator, folder, dtype)
        sizes.append(
            (folder / "variables/variables.data-00000-of-00001").stat().st_size
        )
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
