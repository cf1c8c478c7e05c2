"""Random weights for the tests of layers."""

import keras
import pytest


@pytest.fixture(autouse=True)
def seed():
    """The same initial values whenever a test runs, and in any order."""
    keras.utils.set_random_seed(1803)


@pytest.fixture
def randomize(rng):
    """`randomize(layer)`: all weights random, biases and tables too."""

    def assign(layer):
        for weight in layer.trainable_weights:
            weight.assign(rng.normal(size=weight.shape) / 2)
        return layer

    return assign
