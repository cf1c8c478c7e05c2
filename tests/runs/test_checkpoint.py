"""Checkpoints of a run, and their mean."""

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.models.weights import load_arrays
from relative_attention.models.weights import save_arrays
from relative_attention.runs.checkpoint import load_checkpoint
from relative_attention.runs.checkpoint import save_checkpoint


def test_checkpoint_that_is_there_has_the_later_record(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    for records in ([], [{"step": 3}]):
        save_checkpoint(model, tmp_path / "step", {"history": records})
    assert load_checkpoint(model, tmp_path / "step")["history"] == records


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


def test_average_needs_the_weights_that_were_saved(copy, tmp_path):
    folder = copy / "checkpoints" / "step-00000004"
    weights, mean = folder / "model.safetensors", tmp_path / "mean.safetensors"
    save_arrays({"a": np.ones(2)}, weights)
    for path in (folder, weights):
        with pytest.raises(ra.InputError, match="safetensors cannot be used"):
            ra.average_checkpoints([path], mean)
    # What has no checksums is taken as it is.
    (folder / "state.json").unlink()
    ra.average_checkpoints([folder], mean)
