"""The same numbers on TensorFlow, JAX and PyTorch."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

NUMBERS = pathlib.Path(__file__).with_name("backend_numbers.py")


def numbers_on(backend, folder):
    path = folder / f"{backend}.npz"
    subprocess.run(
        [sys.executable, NUMBERS, path],
        check=True,
        env={**os.environ, "KERAS_BACKEND": backend},
    )
    with np.load(path) as numbers:
        return dict(numbers)


@pytest.fixture(scope="module", params=["jax", "torch"])
def backend(request):
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(
            f"{request.param} is not installed; `make test-backends` does"
        )
    return request.param


@pytest.fixture(scope="module")
def on_tensorflow(tmp_path_factory):
    return numbers_on("tensorflow", tmp_path_factory.mktemp("numbers"))


# The backend first: where there is none, nothing is computed.
@pytest.mark.large
def test_numbers_are_those_of_tensorflow(backend, on_tensorflow, tmp_path):
    numbers = numbers_on(backend, tmp_path)
    assert numbers.keys() == on_tensorflow.keys()
    for name, expected in on_tensorflow.items():
        np.testing.assert_allclose(
            numbers[name], expected, rtol=1e-5, atol=1e-5, err_msg=name
        )
