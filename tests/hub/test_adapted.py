"""Adapters and int8 on a task: trained, saved, loaded, generated with."""

import warnings

import keras
import numpy as np
import pytest

import relative_attention as ra
from tests import small_models
from tests.small_models import SOURCES
from tests.small_models import TARGETS
from tests.small_models import make_translator


def make_task():
    # Biases: frozen, as a file of adapters does not hold them.
    return small_models.make_task(attention_bias=True)


def arrays_of(variables):
    return [keras.ops.convert_to_numpy(variable) for variable in variables]


def quantized(task):
    """The layers that are int8, and whether inputs are rounded, too."""
    return {
        layer.path: layer.quantization_config.activation_quantizer is not None
        for layer in task.backbone._flatten_layers()
        if layer.quantization_mode == "int8"
    }


@pytest.fixture(scope="module")
def trained():
    """A task whose adapters have been trained, and what was frozen."""
    task = make_task()
    before = task.generate(SOURCES)
    task.backbone.enable_lora(2)
    task.compile(optimizer=keras.optimizers.Adam(0.1))
    frozen = arrays_of(task.transformer.non_trainable_variables)
    task.fit(SOURCES, TARGETS, epochs=2, verbose=0)
    for old, new in zip(frozen, task.transformer.non_trainable_variables):
        np.testing.assert_array_equal(new, old)
    assert task.generate(SOURCES) != before
    return task


@pytest.mark.large
@pytest.mark.parametrize("suffix", [".lora.h5", ".safetensors"])
def test_adapters_are_trained_saved_and_loaded(trained, tmp_path, suffix):
    assert {variable.name for variable in trained.trainable_variables} == {
        "lora_kernel_a",
        "lora_kernel_b",
    }
    path = tmp_path / f"domain{suffix}"
    trained.backbone.save_lora_weights(path)
    other = make_task()
    other.backbone.load_lora_weights(path)
    assert other.generate(SOURCES) == trained.generate(SOURCES)
    if suffix == ".safetensors":
        model = make_translator(attention_bias=True).model
        model.load_lora_weights(path)
        for adapted, expected in zip(model.weights, other.weights):
            np.testing.assert_array_equal(adapted, expected)


@pytest.mark.large
def test_preset_of_an_adapted_task_holds_the_sum(trained, tmp_path):
    trained.save_to_preset(tmp_path)
    loaded = ra.hub.TranslationLM.from_preset(tmp_path)
    assert len(loaded.weights) < len(trained.weights)
    assert loaded.generate(SOURCES) == trained.generate(SOURCES)
    # So does a task of an adapted translator.
    merged = ra.hub.TranslationLM.from_translator(trained.translator)
    assert len(merged.weights) == len(loaded.weights)
    assert merged.generate(SOURCES) == trained.generate(SOURCES)


@pytest.mark.large
def test_int8_covers_every_matrix_and_is_saved(tmp_path):
    task = make_task()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        config = keras.quantizers.Int8QuantizationConfig
        task.quantize(config=config(activation_quantizer=None))
    large = {w.path for w in task.weights if w.path.endswith("kernel")}
    assert set(quantized(task)) == {
        *(path.removesuffix("/kernel") for path in large),
        "transformer/embedding",
    }
    # How, too: KerasHub's map of dtypes would not tell.
    assert set(quantized(task).values()) == {False}
    task.save_to_preset(tmp_path)
    loaded = ra.hub.TranslationLM.from_preset(tmp_path)
    assert quantized(loaded) == quantized(task)
    for weight, expected in zip(loaded.weights, task.weights):
        np.testing.assert_array_equal(weight, expected)
    assert len(set(loaded.generate(SOURCES))) > 1
    with pytest.raises(ValueError, match="is quantized already"):
        loaded.backbone.quantize("int8")


# === Bad input ===


def test_file_without_adapters_is_refused(joint, preset, tmp_path):
    backbone = joint.backbone
    with pytest.raises(ValueError, match="no lora-enabled layers"):
        backbone.save_lora_weights(tmp_path / "domain.lora.h5")
    with pytest.raises(ra.InputError, match="must end in .safetensors"):
        backbone.save_lora_weights(tmp_path / "domain.h5")
    other = make_task().backbone
    other.enable_lora(2, ["embedding", "query"])
    with pytest.raises(ra.InputError, match="where no embedding is adapted"):
        other.save_lora_weights(tmp_path / "domain.lora.h5")
    for path, message in (
        (tmp_path / "none.lora.h5", "No adapters at"),
        (tmp_path / "none.safetensors", "No weights at"),
        (preset / "model.weights.h5", "holds no adapters of this backbone"),
    ):
        with pytest.raises(ra.InputError, match=message) as error:
            backbone.load_lora_weights(path)
        assert "\n" not in str(error.value)
