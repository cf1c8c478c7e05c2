"""What an older version saved loads, gives the same and goes on the same.

The files are in `tests/saved_before`, whose page says how they were made.
"""

import json
import pathlib
import shutil

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.models.weights import load_arrays

FOLDER = pathlib.Path(__file__).parents[1] / "saved_before"
NOT_ON_JAX = pytest.mark.only_on(
    "tensorflow", "torch", reason="JAX compiles every operation by itself"
)


@pytest.fixture(scope="module")
def expected():
    """What the older version computed, by name."""
    text = (FOLDER / "expected.json").read_text("utf-8")
    with np.load(FOLDER / "expected.npz") as arrays:
        return {**json.loads(text), **arrays}


@pytest.fixture(scope="module")
def translator():
    return ra.load_translator(FOLDER / "run")


def assert_same(result, expected):
    """Equal but for the order in which processors add up in float32."""
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def assert_same_translations(translations, scores, expected):
    expected = expected["translations"]
    assert list(translations) == [line["translation"] for line in expected]
    wanted = [line["score"] for line in expected]
    np.testing.assert_allclose(scores, wanted, rtol=1e-5, atol=1e-4)


def test_logits_of_a_model_folder(translator, expected):
    inputs = expected["run/inputs"]
    logits = translator.model(
        {"source_token_ids": inputs, "target_token_ids": inputs}
    )
    assert_same(logits, expected["run/logits"])


@NOT_ON_JAX
def test_translations_of_a_model_folder(translator, expected):
    sources = [line["source"] for line in expected["translations"]]
    found = translator.search(sources)
    assert_same_translations(
        [translation.text for translation in found],
        [translation.score for translation in found],
        expected,
    )


@pytest.mark.large
@pytest.mark.only_on("tensorflow", reason="other backends draw other dropout")
def test_run_goes_on_from_its_checkpoint(expected, tmp_path):
    run, steps = tmp_path / "run", expected["resumed"]["steps"]
    shutil.copytree(FOLDER / "run", run)
    recipe = ra.Recipe.load(run / "recipe.yaml")
    ra.train(
        recipe.override([f"training.steps={steps}"]),
        run,
        data_directory=FOLDER / "corpus",
        resume=True,
    )
    history = json.loads((run / "history.json").read_text("utf-8"))
    losses = [epoch["val_loss"] for epoch in history]
    assert_same(losses, expected["resumed"]["val_loss"])
    weights = load_arrays(
        run / "checkpoints" / f"step-{steps:08}" / "model.safetensors"
    )
    prefix = "resumed/"
    wanted = {
        name.removeprefix(prefix): array
        for name, array in expected.items()
        if name.startswith(prefix)
    }
    assert weights.keys() == wanted.keys()
    for name, array in weights.items():
        # Bit for bit on the processor that made them.
        np.testing.assert_allclose(
            array, wanted[name], rtol=0, atol=1e-5, err_msg=name
        )


def test_keras_file_of_layers(expected):
    if "input_axes" not in keras.initializers.GlorotUniform().get_config():
        pytest.skip("this Keras is older than the one that wrote the file")
    model = keras.saving.load_model(FOLDER / "layers.keras")
    assert isinstance(model.get_layer("relative"), ra.RelativeSelfAttention)
    assert_same(model(expected["layers/inputs"]), expected["layers/outputs"])


@pytest.fixture
def transformer():
    return keras.saving.load_model(FOLDER / "transformer.keras")


@pytest.fixture
def batch(expected):
    names = ("source", "target")
    source, target = (expected[f"transformer/{name}"] for name in names)
    return {"source_token_ids": source, "target_token_ids": target}, target


def test_keras_file_of_a_transformer(transformer, batch, expected):
    assert isinstance(transformer, ra.Transformer)
    assert_same(transformer(batch[0]), expected["transformer/logits"])


@NOT_ON_JAX
def test_keras_file_goes_on_with_training(transformer, batch, expected):
    assert isinstance(transformer.optimizer, ra.AveragingAdam)
    assert transformer.loss.label_smoothing == 0.1
    transformer.run_eagerly = True
    transformer.train_on_batch(*batch)
    assert_same(
        transformer(batch[0]),
        expected["transformer/logits_after_one_more_update"],
    )


# No code of this package runs in it, TensorFlow's alone.
@pytest.mark.large
@pytest.mark.only_on("tensorflow", reason="a SavedModel is TensorFlow's")
def test_saved_model(expected, tmp_path):
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    shutil.unpack_archive(FOLDER / "saved_model.zip", tmp_path)
    loaded = tf.saved_model.load(str(tmp_path / "saved_model"))
    sources = [line["source"] for line in expected["translations"]]
    results = loaded.signatures["serving_default"](
        sentences=tf.constant(sources)
    )
    translations = [text.decode() for text in results["translations"].numpy()]
    assert_same_translations(translations, results["scores"].numpy(), expected)
