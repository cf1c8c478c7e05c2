"""Random weights for the tests of layers."""

import pytest


@pytest.fixture
def randomize(rng):
    """`randomize(layer)`: all weights random, biases and tables too.

    With `width` a layer is built first, for inputs of that width.
    """

    def assign(layer, width=None):
        if width is not None:
            layer.build((None, None, width))
        for weight in layer.trainable_weights:
            weight.assign(rng.normal(size=weight.shape) / 2)
        return layer

    return assign
