"""Random weights for the tests of layers."""

import pytest


@pytest.fixture
def randomize(rng):
    """`randomize(layer)`: all weights random, biases and tables too."""

    def assign(layer):
        for weight in layer.trainable_weights:
            weight.assign(rng.normal(size=weight.shape) / 2)
        return layer

    return assign
