"""Fixtures that every room's tests share."""

import json
import pathlib

import numpy as np
import pytest

GOLDEN = pathlib.Path(__file__).parents[1].parent / "shared" / "golden"


class Golden(dict):
    """Arrays that tensor2tensor computed; `info` says what they are."""

    def __init__(self, name):
        self.info = json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))
        arrays = GOLDEN / f"{name}.npz"
        super().__init__(np.load(arrays) if arrays.exists() else {})


@pytest.fixture
def golden():
    if not GOLDEN.is_dir():
        pytest.skip("the golden folder of tensor2tensor's numbers is missing")
    return Golden


@pytest.fixture
def rng():
    return np.random.default_rng(1803)


@pytest.fixture
def gradients():
    """Gradients of a scalar with respect to arrays, then variables.

    `gradients(function, arrays, variables)`: the function takes one tensor
    for each array.
    """
    import tensorflow as tf

    def compute(function, arrays=(), variables=()):
        tensors = [tf.convert_to_tensor(array) for array in arrays]
        sources = tensors + [variable.value for variable in variables]
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            scalar = function(*tensors)
        return [
            tf.convert_to_tensor(gradient).numpy()
            for gradient in tape.gradient(scalar, sources)
        ]

    return compute
