"""What is saved of a model that trains comes back, or nothing does."""

import json

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.training import checkpoint_bytes
from relative_attention.training import load_checkpoint
from relative_attention.training import save_checkpoint
from relative_attention.training.checkpoint import checked_weights

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


def test_checkpoint_comes_back_whole(folder):
    model = make_model(seed=2)
    assert load_checkpoint(model, folder) == STATE
    for number, value in enumerate(values(model)):
        np.testing.assert_array_equal(value, number)
    assert sorted(path.name for path in folder.iterdir()) == FILES


def test_state_is_read_by_the_caller(folder):
    assert load_checkpoint(make_model(), folder, lambda s: s["step"]) == 3

    def refuse(state):
        raise ValueError("its step is odd")

    with pytest.raises(ra.InputError, match="is damaged: its step is odd"):
        load_checkpoint(make_model(), folder, refuse)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("is_missing", [True, False])
def test_nothing_is_assigned_of_a_damaged_checkpoint(folder, name, is_missing):
    path = folder / name
    if is_missing:
        path.unlink()
    elif name == "state.json":
        content = json.loads(path.read_text())
        content["state"]["step"] = 4
        path.write_text(json.dumps(content))
    else:
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    model = make_model()
    before = values(model)
    with pytest.raises(ra.InputError, match=r"step is damaged"):
        load_checkpoint(model, folder)
    for value, old in zip(values(model), before):
        np.testing.assert_array_equal(value, old)


def test_checkpoint_of_another_model_is_refused(folder):
    model = make_model(width=3)
    before = values(model)
    with pytest.raises(ra.InputError, match="other than this one"):
        load_checkpoint(model, folder)
    for value, old in zip(values(model), before):
        np.testing.assert_array_equal(value, old)


def test_weights_are_compared_with_their_checksum(folder):
    assert checked_weights(folder) == folder / "model.safetensors"
    # What has no checksums is taken as it is.
    (folder / "state.json").rename(folder / "state.txt")
    (folder / "model.safetensors").write_bytes(b"")
    assert checked_weights(folder) == folder / "model.safetensors"
    (folder / "state.txt").rename(folder / "state.json")
    with pytest.raises(ra.InputError, match="model.safetensors cannot be used"):
        checked_weights(folder)


def test_size_is_that_of_all_numbers():
    model = make_model()
    numbers = sum(np.prod(v.shape) for v in variables_of(model))
    assert checkpoint_bytes(model) == 4 * numbers
