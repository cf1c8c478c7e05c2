"""What 51ab9de saved loads, and gives the same.

The files are in `tests/saved_before`, whose page says how they were made.
"""

import json
import pathlib
import shutil

import keras
import numpy as np
import pytest

import relative_attention as ra

FOLDER = pathlib.Path(__file__).parents[1] / "saved_before"
NOT_ON_JAX = pytest.mark.only_on(
    "tensorflow", "torch", reason="JAX compiles every operation by itself"
)
# Within a version results are equal bit for bit; versions may add up in other
# orders. Each number that is added rounds by up to half an eps. A dozen sums
# of about 20 numbers lie between inputs and outputs here, so 240 roundings.
# They go up as often as down: about the root of their number remains, 8 eps
# of the largest output. Four times that is allowed.
BOUND = 32 * np.finfo("float32").eps


@pytest.fixture(scope="module")
def expected():
    """What 51ab9de computed, by name."""
    text = (FOLDER / "expected.json").read_text("utf-8")
    with np.load(FOLDER / "expected.npz") as arrays:
        return {**json.loads(text), **arrays}


@pytest.fixture(scope="module")
def keras_files(tmp_path_factory):
    """The folder of what Keras and KerasHub saved."""
    folder = tmp_path_factory.mktemp("keras_files")
    shutil.unpack_archive(FOLDER / "keras_files.zip", folder)
    return folder


@pytest.fixture(scope="module", params=["run", "model"])
def folder(request):
    """A model folder, that of a run and that of `save_translator`."""
    return request.param


@pytest.fixture(scope="module")
def translator(folder):
    return ra.load_translator(FOLDER / folder)


def assert_same(result, expected, factor=1):
    """Equal but for the order in which float32 is added up."""
    size = max(1, np.abs(expected).max())
    np.testing.assert_allclose(
        result, expected, rtol=0, atol=factor * BOUND * size
    )


def assert_same_translations(translations, scores, expected):
    assert list(translations) == [line["translation"] for line in expected]
    for score, line in zip(scores, expected):
        # A sum of 20 log-probabilities or so, whose roundings add up as above.
        assert_same(score, line["score"], factor=20**0.5)


def test_logits_of_a_model_folder(translator, folder, expected):
    inputs = expected[f"{folder}/inputs/0"]
    logits = translator.model(
        {"source_token_ids": inputs, "target_token_ids": inputs}
    )
    assert_same(logits, expected[f"{folder}/outputs"])


@NOT_ON_JAX
def test_translations_of_a_model_folder(translator, folder, expected):
    expected = expected[folder]
    lines = expected["translations"]
    found = translator.search([line["source"] for line in lines])
    assert_same_translations(
        [translation.text for translation in found],
        [translation.score for translation in found],
        lines,
    )
    for name, value in expected.get("settings", {}).items():
        assert getattr(translator, name) == value


with np.load(FOLDER / "expected.npz") as _arrays:
    LAYERS = sorted(
        {name.split("/")[1] for name in _arrays if name.startswith("layers/")}
    )


@pytest.mark.parametrize("name", LAYERS)
def test_keras_file_of_a_layer(name, keras_files, expected):
    if "input_axes" not in keras.initializers.GlorotUniform().get_config():
        pytest.skip("this Keras is older than the one that wrote the file")
    model = keras.saving.load_model(keras_files / "layers" / f"{name}.keras")
    prefix = f"layers/{name}/inputs/"
    inputs = [array for key, array in expected.items() if prefix in key]
    assert_same(model(inputs), expected[f"layers/{name}/outputs"])


@pytest.fixture
def batch(expected):
    names = ("source", "target")
    source, target = (expected[f"transformers/{name}"] for name in names)
    return {"source_token_ids": source, "target_token_ids": target}, target


@pytest.mark.parametrize(
    "name",
    [
        "trained",
        "relative_per_head",
        "relative_sinusoidal",
        "sinusoidal",
        "learned",
        "no_positions",
        pytest.param("int8", marks=pytest.mark.int8),
    ],
)
def test_keras_file_of_a_transformer(name, keras_files, batch, expected):
    file = keras_files / "transformers" / f"{name}.keras"
    model = keras.saving.load_model(file)
    assert type(model) is ra.Transformer
    assert_same(model(batch[0]), expected[f"transformers/{name}/outputs"])


@pytest.fixture
def trained(keras_files):
    return keras.saving.load_model(
        keras_files / "transformers" / "trained.keras"
    )


@NOT_ON_JAX
def test_keras_file_resumes_training(trained, batch, expected):
    assert isinstance(trained.optimizer, ra.AveragingAdam)
    assert trained.loss.label_smoothing == 0.1
    trained.run_eagerly = True
    trained.train_on_batch(*batch)
    assert_same(
        trained(batch[0]),
        expected["transformers/trained/outputs_after_one_more_update"],
        # Forward, backward, and forward again.
        factor=3,
    )


def test_adapters_of_a_transformer(trained, keras_files, batch, expected):
    trained.load_lora_weights(
        keras_files / "transformers" / "adapters.safetensors"
    )
    assert_same(trained(batch[0]), expected["transformers/adapted/outputs"])


@pytest.mark.large
@pytest.mark.only_on("tensorflow", reason="strings are TensorFlow's")
@pytest.mark.parametrize("name", ["hub_preset", "hub_task.keras"])
def test_kerashub_task(name, keras_files, expected):
    path = str(keras_files / name)
    if name == "hub_preset":
        task = ra.hub.TranslationLM.from_preset(path)
    else:
        task = keras.saving.load_model(path)
    assert type(task) is ra.hub.TranslationLM
    lines = expected["run"]["translations"]
    found = task.translator.search([line["source"] for line in lines])
    assert_same_translations(
        [translation.text for translation in found],
        [translation.score for translation in found],
        lines,
    )


# No code of this package runs in it, TensorFlow's alone.
@pytest.mark.large
@pytest.mark.only_on("tensorflow", reason="a SavedModel is TensorFlow's")
def test_saved_model(expected, tmp_path):
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    shutil.unpack_archive(FOLDER / "saved_model.zip", tmp_path)
    loaded = tf.saved_model.load(str(tmp_path / "saved_model"))
    lines = expected["run"]["translations"]
    results = loaded.signatures["serving_default"](
        sentences=tf.constant([line["source"] for line in lines])
    )
    assert_same_translations(
        [text.decode() for text in results["translations"].numpy()],
        results["scores"].numpy(),
        lines,
    )
