"""Checkpoints come back whole or not at all, and can be averaged."""

import json

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.models.weights import load_arrays
from relative_attention.models.weights import save_arrays
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


# === Averages ===


@pytest.fixture
def files(tmp_path, rng):
    paths = []
    for number in range(3):
        path = tmp_path / f"{number}.safetensors"
        arrays = {"a": rng.normal(size=(2, 3)), "b": rng.normal(size=5)}
        save_arrays({k: v.astype("float32") for k, v in arrays.items()}, path)
        paths.append(path)
    return paths


def test_output_is_the_mean_of_each_array(files, tmp_path):
    ra.average_checkpoints(files, tmp_path / "mean.safetensors")
    inputs = [load_arrays(path) for path in files]
    for name, array in load_arrays(tmp_path / "mean.safetensors").items():
        mean = np.mean([arrays[name] for arrays in inputs], axis=0)
        np.testing.assert_allclose(array, mean, rtol=1e-6)
        assert array.dtype == "float32"


def test_tensor2tensors_average_is_the_same(golden, tmp_path):
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
        np.testing.assert_allclose(result[name], expected, atol=1e-6)


def _of(arrays, step):
    return {
        name.partition("/")[2]: array
        for name, array in arrays.items()
        if name.startswith(f"{step}/") and np.ndim(array)
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda file: None, "`paths` must name"),
        (
            lambda file: file.write_bytes(file.read_bytes()[:-4]),
            "2.safetensors cannot be read: it is cut short",
        ),
        (
            lambda file: save_arrays({"a": np.zeros((2, 3), "float32")}, file),
            r"cannot be averaged: of b the one has nothing, the other float32 "
            r"of shape \(5,\)",
        ),
        (
            lambda file: save_arrays(
                {k: v.astype("float16") for k, v in load_arrays(file).items()},
                file,
            ),
            r"of a the one has float16 of shape \(2, 3\), the other float32 "
            r"of shape \(2, 3\).* --dtype float16",
        ),
    ],
    ids=["none", "cut", "another_model", "another_type"],
)
def test_what_has_no_mean_is_refused(change, message, files, tmp_path):
    change(files[2])
    paths = [] if "paths" in message else files
    with pytest.raises(ra.InputError, match=message):
        ra.average_checkpoints(paths, tmp_path / "mean.safetensors")
    assert not (tmp_path / "mean.safetensors").exists()
