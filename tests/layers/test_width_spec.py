"""The inputs that a built layer takes."""

import pytest

from relative_attention.layers.dense import known_width
from relative_attention.layers.dense import width_spec


def test_spec_asks_for_the_rank_and_the_width():
    spec = width_spec((None, 5, 11), ndim=3)
    assert spec.ndim == 3
    assert spec.axes == {-1: 11}


def test_width_must_be_known():
    assert known_width((None, None, 11)) == 11
    with pytest.raises(ValueError) as error:
        known_width((2, 5, None))
    assert str(error.value) == (
        "The last axis of `inputs` must have a known size. Received shape: "
        "(2, 5, None)."
    )
