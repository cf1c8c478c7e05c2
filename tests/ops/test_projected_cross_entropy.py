"""Losses of logits that are never all there, against plain formulas."""

import numpy as np
import pytest
from keras import ops

from relative_attention.ops.label_smoothing import smoothed_distribution
from relative_attention.ops.projected_cross_entropy import LossTerms
from relative_attention.ops.projected_cross_entropy import (
    projected_cross_entropy,
)

ONE = LossTerms(0.1)
R_DROP = LossTerms(0.1, (0.5, 0.5), 2.5)
SIMCUT = LossTerms(0.1, (1.0, 0.0), 3.0, symmetric=False)
UNEVEN = LossTerms(0.0, (0.3, 0.9), 0.7, symmetric=False)


def log_softmax(logits):
    logits = logits - logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def plain(hidden, matrix, bias, labels, weights, num_tokens, terms):
    """The definition, in float64."""
    vocabulary_size = len(matrix)
    logs = log_softmax(hidden @ matrix.T + (0 if bias is None else bias))
    q = np.full(
        (len(labels), vocabulary_size),
        terms.label_smoothing / (vocabulary_size - 1),
    )
    q[np.arange(len(labels)), labels] = 1 - terms.label_smoothing
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.nansum(q * np.log(q), axis=-1)
    losses = sum(
        weight * (-(q * copy).sum(-1) - entropy)
        for weight, copy in zip(terms.copy_weights, logs)
    )
    if len(logs) == 2:
        forward = (np.exp(logs[0]) * (logs[0] - logs[1])).sum(-1)
        backward = (np.exp(logs[1]) * (logs[1] - logs[0])).sum(-1)
        if terms.symmetric:
            forward = (forward + backward) / 2
        losses = losses + terms.divergence * forward
    return (weights * losses).sum() / num_tokens


def slope(function, array, epsilon=1e-6):
    """Central differences, in float64."""
    gradient = np.zeros_like(array)
    for index in np.ndindex(array.shape):
        kept = array[index]
        array[index] = kept + epsilon
        above = function()
        array[index] = kept - epsilon
        gradient[index] = (above - function()) / (2 * epsilon)
        array[index] = kept
    return gradient


def slope_of_hidden(arguments, terms):
    return slope(lambda: plain(*arguments, terms), arguments[0])


def case(terms, rng, vocabulary_size=9, num_rows=5, hidden_dim=4, scale=1.0):
    copies = len(terms.copy_weights)
    return (
        scale * rng.normal(size=(copies, num_rows, hidden_dim)),
        rng.normal(size=(vocabulary_size, hidden_dim)),
        rng.normal(size=vocabulary_size),
        rng.integers(0, vocabulary_size, num_rows),
        # A padded position among them.
        np.append(0.0, rng.uniform(0.5, 2, num_rows - 1)),
        3.7,
    )


def tensors(hidden, matrix, bias, labels, weights, num_tokens):
    return (
        ops.convert_to_tensor(hidden, "float32"),
        ops.convert_to_tensor(matrix, "float32"),
        None if bias is None else ops.convert_to_tensor(bias, "float32"),
        ops.convert_to_tensor(labels, "int32"),
        ops.convert_to_tensor(weights, "float32"),
        ops.convert_to_tensor(num_tokens, "float32"),
    )


@pytest.mark.parametrize("has_bias", [True, False], ids=["bias", "no_bias"])
@pytest.mark.parametrize(
    "terms",
    [ONE, R_DROP, SIMCUT, UNEVEN],
    ids=["one", "r_drop", "simcut", "uneven"],
)
def test_loss_is_that_of_the_formula(rng, terms, has_bias):
    arguments = list(case(terms, rng))
    if not has_bias:
        arguments[2] = None
    loss, likelihoods, matches = projected_cross_entropy(
        *tensors(*arguments), terms
    )
    expected = plain(*arguments, terms)
    np.testing.assert_allclose(float(loss), expected, rtol=1e-5)
    hidden, matrix, bias, labels = arguments[:4]
    logits = hidden[0] @ matrix.T + (0 if bias is None else bias)
    logs = log_softmax(logits)
    np.testing.assert_allclose(
        ops.convert_to_numpy(likelihoods),
        -logs[np.arange(len(labels)), labels],
        rtol=1e-5,
        atol=1e-6,
    )
    np.testing.assert_array_equal(
        ops.convert_to_numpy(matches), logs.argmax(-1) == labels
    )


@pytest.mark.only_on("tensorflow", reason="it takes the gradient by a tape")
@pytest.mark.parametrize(
    "terms",
    [ONE, R_DROP, SIMCUT, UNEVEN],
    ids=["one", "r_drop", "simcut", "uneven"],
)
def test_gradients_are_those_of_the_formula(rng, terms):
    import tensorflow as tf

    arguments = case(terms, rng)
    hidden, matrix, bias, *rest = tensors(*arguments)
    with tf.GradientTape() as tape:
        tape.watch([hidden, matrix, bias])
        loss, _, _ = projected_cross_entropy(hidden, matrix, bias, *rest, terms)
        # What is upstream scales them, as a loss scale does.
        scaled = 8 * loss
    gradients = tape.gradient(scaled, [hidden, matrix, bias])
    for gradient, array in zip(gradients, arguments):
        expected = 8 * slope(lambda: plain(*arguments, terms), array)
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=2e-5)


@pytest.mark.only_on("tensorflow", reason="it takes the gradient by a tape")
@pytest.mark.parametrize(
    "terms", [ONE, R_DROP, SIMCUT], ids=["one", "r_drop", "simcut"]
)
def test_blocks_of_rows_give_the_whole(rng, terms):
    """Four blocks, of 3, 3, 3 and 4 rows, and of fewer rows than blocks."""
    import tensorflow as tf

    for num_rows in (13, 3):
        arguments = case(terms, rng, vocabulary_size=2000, num_rows=num_rows)
        hidden, matrix, bias, *rest = tensors(*arguments)
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            loss, _, _ = projected_cross_entropy(
                hidden, matrix, bias, *rest, terms
            )
        np.testing.assert_allclose(
            float(loss), plain(*arguments, terms), rtol=1e-5
        )
        gradient = tape.gradient(loss, hidden)
        # Each row's is its own: that of the row alone.
        row = num_rows - 1
        alone = [
            arguments[0][:, row:],
            *arguments[1:3],
            arguments[3][row:],
            arguments[4][row:],
            arguments[5],
        ]
        expected = slope_of_hidden(alone, terms)
        np.testing.assert_allclose(
            gradient[:, row:], expected, rtol=1e-3, atol=2e-5
        )


@pytest.mark.parametrize("terms", [ONE, R_DROP, SIMCUT])
def test_large_logits_give_finite_losses(rng, terms):
    arguments = case(terms, rng, scale=100.0)
    loss, *_ = projected_cross_entropy(*tensors(*arguments), terms)
    np.testing.assert_allclose(float(loss), plain(*arguments, terms), rtol=1e-4)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_off_by_its_rounding(rng, dtype):
    arguments = case(R_DROP, rng, vocabulary_size=600, num_rows=40)
    hidden, *rest = tensors(*arguments)
    loss, *_ = projected_cross_entropy(ops.cast(hidden, dtype), *rest, R_DROP)
    unit = {"bfloat16": 2**-8, "float16": 2**-11}[dtype]
    expected = plain(*arguments, R_DROP)
    # Four products a logit, of numbers of about 1, each rounded twice.
    assert abs(float(loss) - expected) < 8 * unit * abs(expected)


@pytest.mark.only_on("tensorflow", reason="it takes the gradient by a tape")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_learnt_labels_have_gradients_and_no_noise(rng, dtype):
    """Where `p` is nearly `q`, hundreds of rows have the same label."""
    import tensorflow as tf

    vocabulary_size, hidden_dim, num_rows = 300, 32, 512
    matrix = rng.normal(size=(vocabulary_size, hidden_dim)) / 4
    labels = rng.integers(0, 3, num_rows)
    hidden = np.stack([1.6 * matrix[labels]]) * 4
    hidden = hidden * (1 + 0.05 * rng.normal(size=hidden.shape))
    # The model's own numbers: what they are rounded to is no error.
    hidden, matrix = (
        np.array(ops.cast(array, dtype), "float64")
        for array in (hidden, matrix)
    )
    weights, num_tokens = np.ones(num_rows), 1.0
    logits = hidden[0] @ matrix.T
    q = np.full(logits.shape, 0.1 / (vocabulary_size - 1))
    q[np.arange(num_rows), labels] = 0.9
    slopes = np.exp(log_softmax(logits)) - q
    at_label = slopes[np.arange(num_rows), labels]
    assert np.abs(at_label).mean() < 0.15
    arguments = tensors(hidden, matrix, None, labels, weights, num_tokens)
    states, rows, *rest = arguments
    with tf.GradientTape() as tape:
        tape.watch(rows)
        loss, *_ = projected_cross_entropy(
            ops.cast(states, dtype), rows, *rest, ONE
        )
    error = np.abs(tape.gradient(loss, rows) - slopes.T @ hidden[0])
    # The logits, of up to 8, and slopes are rounded; the sums of `p` and of
    # `q`, many times as large as their difference, are not.
    unit = {"bfloat16": 2**-8, "float16": 2**-11}[dtype]
    p = slopes + q
    bound = (8 * p * (1 - p) + np.abs(slopes)).T @ np.abs(hidden[0])
    assert (error < 2 * unit * bound + 1e-3).all()


def test_smoothed_distribution_adds_up_to_one():
    low, peak, entropy = smoothed_distribution(0.1, 7)
    q = np.full(7, low)
    q[3] += peak
    np.testing.assert_allclose(q.sum(), 1)
    np.testing.assert_allclose(entropy, -(q * np.log(q)).sum())
    assert smoothed_distribution(0.0, 5) == (0.0, 1.0, 0.0)
