"""A token drawn from logits and noise that are known."""

import numpy as np
import pytest
import tensorflow as tf

from relative_attention.decoding.draw_tokens import draw_tokens
from relative_attention.decoding.draw_tokens import tempered_logits

LOGITS = tf.constant(np.log([[[0.2, 0.1, 0.4, 0.3]]]), tf.float32)


def draw(noise, top_k=None, top_p=None):
    noise = tf.constant([[noise]], tf.float32)
    token_ids = draw_tokens(LOGITS, noise, top_k, top_p)
    assert token_ids.dtype == tf.int32
    return token_ids.numpy().tolist()


def test_largest_sum_is_drawn():
    assert draw([0, 0, 0, 0]) == [[2]]
    assert draw([0, 3, 0, 0]) == [[1]]


@pytest.mark.parametrize(
    "arguments, left",
    [
        ({}, [0, 1, 2, 3]),
        ({"top_k": 1}, [2]),
        ({"top_k": 3}, [0, 2, 3]),
        ({"top_k": 9}, [0, 1, 2, 3]),
        # The fewest whose probabilities reach it.
        ({"top_p": 0.01}, [2]),
        ({"top_p": 0.39}, [2]),
        ({"top_p": 0.41}, [2, 3]),
        ({"top_p": 0.8}, [0, 2, 3]),
        ({"top_p": 1.0}, [0, 1, 2, 3]),
        # Of two they are 0.57 and 0.43; of three 0.44, 0.33 and 0.22.
        ({"top_k": 2, "top_p": 0.55}, [2]),
        ({"top_k": 3, "top_p": 0.76}, [2, 3]),
    ],
    ids=str,
)
def test_only_the_likeliest_are_drawn(arguments, left):
    # Noise that would make each in turn the largest.
    drawn = {draw(row, **arguments)[0][0] for row in 9 * np.eye(4)}
    assert drawn == {*left}


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_temperature_is_a_power_of_the_probabilities(temperature):
    tempered = tempered_logits(LOGITS, temperature, lambda logits: logits)
    wanted = np.array([0.2, 0.1, 0.4, 0.3]) ** (1 / temperature)
    np.testing.assert_allclose(
        np.exp(tempered)[0, 0], wanted / wanted.max(), rtol=1e-5
    )


def test_what_is_forbidden_is_not_raised_by_the_temperature():
    def forbid(logits):
        return tf.where(tf.range(4) == 2, -1e7, logits)

    for temperature in (1e-30, 1e30):
        tempered = tempered_logits(LOGITS, temperature, forbid).numpy()[0, 0]
        assert tempered[2] == -1e7
        # The likeliest of those that are allowed.
        assert tempered.argmax() == 3
        assert tempered[3] == 0
