import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

from relative_attention.errors import InputError
from relative_attention.models import Transformer
from relative_attention.models.weights import load_arrays
from relative_attention.models.weights import load_weights
from relative_attention.models.weights import save_arrays
from relative_attention.models.weights import save_weights


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


def test_arrays_come_back_with_their_dtypes(tmp_path, rng):
    path = tmp_path / "arrays.safetensors"
    arrays = {
        "floats": rng.normal(size=(3, 5)).astype("float32"),
        "step": np.array(7, "int64"),
        "seed": np.array([1, 2], "uint32"),
    }
    save_arrays(arrays, path)
    loaded = load_arrays(path)
    assert loaded.keys() == arrays.keys()
    for name, array in arrays.items():
        assert loaded[name].dtype == array.dtype
        np.testing.assert_array_equal(loaded[name], array)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_missing_file_is_named(tmp_path):
    path = tmp_path / "none.safetensors"
    with pytest.raises(InputError) as error:
        load_arrays(path)
    assert str(error.value) == f"No weights at {path}."


@pytest.mark.parametrize("damage", ["cut", "empty", "text"])
def test_damaged_file_is_named(tmp_path, variables, damage):
    path = tmp_path / "weights.safetensors"
    save_weights(variables, path)
    whole = path.read_bytes()
    path.write_bytes(
        {"cut": whole[:-4], "empty": b"", "text": b"no weights here\n"}[damage]
    )
    with pytest.raises(InputError) as error:
        load_weights(variables, path)
    assert str(error.value).startswith(f"{path} cannot be read: ")


@pytest.mark.parametrize(
    "change, message",
    [
        ("lacking", "it lacks bias and has nothing more"),
        ("left_over", "it lacks nothing and has extra more"),
        ("shape", "kernel must have shape (5, 3). Received: (3, 5)."),
    ],
)
def test_file_that_does_not_fit_changes_nothing(
    tmp_path, variables, change, message
):
    path = tmp_path / "weights.safetensors"
    arrays = {"kernel": np.ones((5, 3)), "bias": np.ones(3)}
    if change == "lacking":
        del arrays["bias"]
    elif change == "left_over":
        arrays["extra"] = np.ones(1)
    else:
        arrays["kernel"] = np.ones((3, 5))
    save_arrays(arrays, path)
    before = [np.array(variable) for variable in variables]
    with pytest.raises(InputError) as error:
        load_weights(variables, path)
    assert message in str(error.value)
    for old, variable in zip(before, variables):
        np.testing.assert_array_equal(variable, old)
