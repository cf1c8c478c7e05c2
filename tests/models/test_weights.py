"""Weights as files of named arrays, and as the folder of a model holds them."""

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

from relative_attention.errors import InputError
from relative_attention.models import Transformer
from relative_attention.models.weights import check_finite
from relative_attention.models.weights import load_arrays
from relative_attention.models.weights import load_weights
from relative_attention.models.weights import save_arrays
from relative_attention.models.weights import save_weights
from relative_attention.models.weights import stored_weights


@pytest.fixture
def variables(rng):
    layer = keras.layers.Dense(3, name="dense")
    layer.build((None, 5))
    layer.bias.assign(rng.normal(size=3))
    return layer.weights


def test_weights_come_back_in_a_model_of_another_name(
    tmp_path, shared_model, batch
):
    inputs, _ = batch
    model = shared_model(normalize_first=True, share_embeddings="none")
    path = tmp_path / "weights.safetensors"
    save_weights(model.trainable_variables, path)
    # A name for each: none has taken the place of another.
    assert len(load_file(path)) == len(model.trainable_variables)
    other = Transformer(model.config, name="other")
    load_weights(other.trainable_variables, path)
    np.testing.assert_array_equal(other(inputs), model(inputs))


def test_missing_or_damaged_file_is_named(tmp_path, variables):
    path = tmp_path / "weights.safetensors"
    with pytest.raises(InputError) as error:
        load_arrays(path)
    assert str(error.value) == f"No weights at {path}."
    save_weights(variables, path)
    for damaged in (path.read_bytes()[:-4], b"", b"no weights here\n"):
        path.write_bytes(damaged)
        with pytest.raises(InputError) as error:
            load_weights(variables, path)
        assert str(error.value).startswith(f"{path} cannot be read: ")


@pytest.mark.parametrize(
    "shapes, message",
    [
        ({"kernel": (5, 3)}, "it lacks bias and has nothing more"),
        (
            {"kernel": (5, 3), "bias": (3,), "extra": (1,)},
            "it lacks nothing and has extra more",
        ),
        (
            {"kernel": (3, 5), "bias": (3,)},
            "kernel must have shape (5, 3). Received: (3, 5).",
        ),
    ],
    ids=["lacking", "left_over", "shape"],
)
def test_weights_do_not_change_when_a_file_does_not_fit(
    tmp_path, variables, shapes, message
):
    path = tmp_path / "weights.safetensors"
    save_arrays({name: np.ones(shape) for name, shape in shapes.items()}, path)
    before = [np.array(variable) for variable in variables]
    with pytest.raises(InputError) as error:
        load_weights(variables, path)
    assert message in str(error.value)
    for old, variable in zip(before, variables):
        np.testing.assert_array_equal(variable, old)


# === What a model folder holds ===


def test_lora_is_merged_into_the_kernels(tmp_path, build_model, batch, rng):
    inputs, _ = batch
    model, plain = build_model(), build_model()
    for layer in (
        model.encoder_blocks[0].self_attention.query_dense,
        model.decoder_blocks[0].feed_forward.output_dense,
    ):
        layer.enable_lora(2)
        layer.lora_kernel_b.assign(rng.normal(size=layer.lora_kernel_b.shape))
    save_arrays(stored_weights(model, "float32"), tmp_path / "weights")
    load_weights(plain.weights, tmp_path / "weights")
    np.testing.assert_allclose(plain(inputs), model(inputs), atol=1e-5)
    assert model.encoder_blocks[0].self_attention.query_dense.lora_enabled


def test_weight_is_named_when_it_cannot_be_stored():
    for value, dtype, message in (
        (-7e4, "float16", "float16 ends at 65504.*b with a magnitude of 70000"),
        (np.inf, "float32", "b holds nan or inf"),
        (np.nan, "float16", "b holds nan or inf"),
    ):
        arrays = {"a": np.zeros(2), "b": np.array([1.0, value])}
        with pytest.raises(InputError, match=message):
            check_finite(arrays, dtype)
    check_finite({"a": np.array([7e4])})
    check_finite({"a": np.array([65519.0, -65519.0])}, "float16")
    check_finite({"a": np.zeros((0, 3))}, "float16")
