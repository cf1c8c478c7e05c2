import numpy as np
import pytest

import relative_attention as ra
from relative_attention.models.weights import load_arrays
from relative_attention.models.weights import save_arrays


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


def test_folder_stands_for_its_weights(files, tmp_path):
    folder = tmp_path / "step-00000001"
    folder.mkdir()
    files[0].rename(folder / "model.safetensors")
    ra.average_checkpoints([folder], tmp_path / "mean.safetensors")
    assert (tmp_path / "mean.safetensors").read_bytes() == (
        folder / "model.safetensors"
    ).read_bytes()


def test_tensor2tensors_average_is_the_same(golden, tmp_path):
    arrays = golden("G_avg_checkpoints")
    steps = sorted({name.split("/")[0] for name in arrays} - {"averaged"})
    paths = []
    for step in steps:
        paths.append(tmp_path / f"{step}.safetensors")
        save_arrays(_of(arrays, step), paths[-1])
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


def test_different_models_are_refused(files, tmp_path):
    save_arrays({"a": np.zeros((2, 3), "float32")}, files[1])
    with pytest.raises(ra.InputError, match="cannot be averaged: of b the one"):
        ra.average_checkpoints(files, tmp_path / "mean.safetensors")
    assert not (tmp_path / "mean.safetensors").exists()


def test_weights_of_another_type_are_refused_with_the_way_out(files, tmp_path):
    save_arrays(
        {k: v.astype("float16") for k, v in load_arrays(files[2]).items()},
        files[2],
    )
    with pytest.raises(
        ra.InputError,
        match=r"of a the one has float16 of shape \(2, 3\), the other float32 "
        r"of shape \(2, 3\).* --dtype float16",
    ):
        ra.average_checkpoints(files, tmp_path / "mean.safetensors")


def test_no_checkpoint_is_refused(tmp_path):
    with pytest.raises(ra.InputError, match="`paths` must name"):
        ra.average_checkpoints([], tmp_path / "mean.safetensors")


def test_truncated_checkpoint_is_refused(files, tmp_path):
    files[2].write_bytes(files[2].read_bytes()[:-4])
    with pytest.raises(ra.InputError, match="cut short"):
        ra.average_checkpoints(files, tmp_path / "mean.safetensors")
