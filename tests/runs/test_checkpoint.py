"""Checkpoints come back whole or not at all, and can be averaged."""

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.models.weights import load_arrays
from relative_attention.models.weights import save_arrays
from relative_attention.runs.checkpoint import checkpoint_bytes
from relative_attention.runs.checkpoint import load_checkpoint
from relative_attention.runs.checkpoint import save_checkpoint

STATE = {"step": 3, "history": [{"loss": 0.5}]}
FILES = ["model.safetensors", "state.json", "training.safetensors"]


def make_model(seed=1, width=2):
    """The smallest that has weights, an optimizer and a random generator."""
    inputs = keras.Input((width,))
    layer = keras.layers.Dropout(0.5, seed=seed)
    model = keras.Model(inputs, layer(keras.layers.Dense(1)(inputs)))
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    return model


def variables_of(model):
    return [*model.variables, *model.optimizer.variables]


def numbered(model):
    """Every variable has a value of its own."""
    for number, variable in enumerate(variables_of(model)):
        variable.assign(np.full(variable.shape, number))
    return model


def values(model):
    return [np.array(variable) for variable in variables_of(model)]


@pytest.fixture
def folder(tmp_path):
    save_checkpoint(numbered(make_model()), tmp_path / "step", STATE)
    return tmp_path / "step"


def test_checkpoint_is_restored(folder):
    model = make_model(seed=2)
    assert load_checkpoint(model, folder) == STATE
    for number, value in enumerate(values(model)):
        np.testing.assert_array_equal(value, number)
    assert sorted(path.name for path in folder.iterdir()) == FILES


def test_only_damaged_checkpoint_is_overwritten(folder):
    save_checkpoint(make_model(), folder, {"step": 4})
    assert load_checkpoint(make_model(), folder) == STATE
    (folder / "state.json").write_text("{}")
    save_checkpoint(make_model(), folder, {"step": 4})
    assert load_checkpoint(make_model(), folder) == {"step": 4}


def assert_nothing_is_assigned(model, folder, message):
    before = values(model)
    with pytest.raises(ra.InputError, match=message):
        load_checkpoint(model, folder)
    for value, old in zip(values(model), before):
        np.testing.assert_array_equal(value, old)


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_assigned_when_a_checkpoint_is_damaged(folder, name):
    path, model = folder / name, make_model()
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert_nothing_is_assigned(model, folder, "step is damaged")
    path.unlink()
    assert_nothing_is_assigned(model, folder, "step is damaged")


def test_checkpoint_of_another_model_is_refused(folder):
    message = "other than this one"
    assert_nothing_is_assigned(make_model(width=3), folder, message)


def test_weights_are_compared_with_their_checksum(folder, tmp_path):
    weights, mean = folder / "model.safetensors", tmp_path / "mean.safetensors"
    ra.average_checkpoints([folder, weights], mean)
    save_arrays({"a": np.ones(2)}, weights)
    for path in (folder, weights):
        with pytest.raises(ra.InputError, match="safetensors cannot be used"):
            ra.average_checkpoints([path], mean)
    # What has no checksums is taken as it is.
    (folder / "state.json").unlink()
    ra.average_checkpoints([folder], mean)


def test_checkpoint_size_counts_all_variables():
    model = make_model()
    numbers = sum(np.prod(v.shape) for v in variables_of(model))
    assert checkpoint_bytes(model) == 4 * numbers


# === Averages ===


def test_average_equals_tensor2tensors(golden, tmp_path):
    arrays = golden("G_avg_checkpoints")
    steps = sorted({name.split("/")[0] for name in arrays} - {"averaged"})
    paths = []
    for step in steps:
        # A folder stands for its weights.
        paths.append(tmp_path / step)
        paths[-1].mkdir()
        save_arrays(_of(arrays, step), paths[-1] / "model.safetensors")
    ra.average_checkpoints(paths, tmp_path / "mean.safetensors")
    result = load_arrays(tmp_path / "mean.safetensors")
    assert len(steps) == 3 and len(result) == 5
    for name, expected in _of(arrays, "averaged").items():
        assert result[name].dtype == "float32"
        np.testing.assert_allclose(result[name], expected, atol=1e-6)


def _of(arrays, step):
    return {
        name.partition("/")[2]: array
        for name, array in arrays.items()
        if name.startswith(f"{step}/") and np.ndim(array)
    }


def test_average_is_refused_for_other_arrays(tmp_path):
    whole, other = tmp_path / "1.safetensors", tmp_path / "2.safetensors"
    output = tmp_path / "mean.safetensors"
    arrays = {"a": np.ones((2, 3), "float32"), "b": np.ones(5, "float32")}

    def check(paths, message):
        with pytest.raises(ra.InputError, match=message):
            ra.average_checkpoints(paths, output)
        assert not output.exists()

    check([], "`paths` must name")
    save_arrays(arrays, whole)
    other.write_bytes(whole.read_bytes()[:-4])
    check([whole, other], "2.safetensors cannot be read: it is cut short")
    save_arrays({"a": arrays["a"]}, other)
    check([whole, other], r"of b the one has nothing, .* float32 of .*\(5,\)")
    save_arrays({k: v.astype("float16") for k, v in arrays.items()}, other)
    check([whole, other], r"of a the one has float16 .* --dtype float16")
