"""Loops and choices over structures of tensors whose shapes change."""

from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from relative_attention.decoding.while_loop import change_if
from relative_attention.decoding.while_loop import while_loop


class State(NamedTuple):
    step: tf.Tensor
    nested: list
    missing: None = None


@pytest.fixture(params=["graph", "eager"])
def run(request):
    return (
        tf.function if request.param == "graph" else lambda function: function
    )


def grow(state):
    (inner,) = state.nested
    added = tf.fill((2, 3, 1), state.step)
    grown = tf.concat([inner["grown"], added], axis=2)
    return state._replace(step=state.step + 1, nested=[{"grown": grown}])


def test_while_loop_carries_tensors_that_grow(run):
    @run
    def loop(limit):
        start = State(
            tf.constant(0), [{"grown": tf.zeros((2, 3, 0), tf.int32)}]
        )
        return while_loop(lambda state: state.step < limit, grow, start)

    state = loop(tf.constant(5))
    assert isinstance(state, State)
    assert state.missing is None
    grown = state.nested[0]["grown"].numpy()
    assert grown.shape == (2, 3, 5)
    assert (grown == np.arange(5)).all()


def test_while_loop_refuses_another_structure():
    @tf.function
    def loop():
        return while_loop(
            lambda state: state["a"] < 5,
            lambda state: {"b": state["a"] + 1},
            {"a": tf.constant(0)},
        )

    with pytest.raises(ValueError):
        loop()


@pytest.mark.parametrize("condition", [True, False])
def test_change_is_made_if_the_condition_holds(run, condition):
    @run
    def choose(condition):
        return change_if(
            condition, lambda state: {"a": state["a"][1:]}, {"a": tf.range(3)}
        )

    found = choose(tf.constant(condition))["a"].numpy().tolist()
    assert found == ([1, 2] if condition else [0, 1, 2])
