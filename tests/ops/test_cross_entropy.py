"""Losses and scores of rows, against the definition in float64."""

import numpy as np
import pytest
from keras import ops

from relative_attention.ops.cross_entropy import projected_cross_entropy
from relative_attention.training import MaskedCrossEntropy

SMOOTHING = 0.1


def log_softmax(logits):
    logits = logits.astype("float64")
    logits = logits - logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def token_losses(logits, labels, smoothing=SMOOTHING):
    """Smoothed losses of tokens, less their least, as of tensor2tensor."""
    q = np.full(logits.shape, smoothing / (logits.shape[-1] - 1))
    np.put_along_axis(q, labels[..., None], 1 - smoothing, axis=-1)
    # tensor2tensor adds 1e-20 for smoothing 0, where p log p is 0.
    return (q * (np.log(q + 1e-20) - log_softmax(logits))).sum(-1)


def plain(hidden, matrix, bias, labels, weights, num_tokens):
    """The definition, in float64."""
    logits = hidden @ matrix.T + (0 if bias is None else bias)
    return (weights * token_losses(logits, labels)).sum() / num_tokens


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


def case(rng, vocabulary_size=9, num_rows=5, hidden_dim=4, scale=1.0):
    return (
        scale * rng.normal(size=(num_rows, hidden_dim)),
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
def test_loss_is_that_of_the_formula(rng, has_bias):
    arguments = list(case(rng))
    if not has_bias:
        arguments[2] = None
    loss, likelihoods, matches = projected_cross_entropy(
        *tensors(*arguments), SMOOTHING
    )
    np.testing.assert_allclose(float(loss), plain(*arguments), rtol=1e-5)
    hidden, matrix, bias, labels = arguments[:4]
    logs = log_softmax(hidden @ matrix.T + (0 if bias is None else bias))
    np.testing.assert_allclose(
        ops.convert_to_numpy(likelihoods),
        -logs[np.arange(len(labels)), labels],
        rtol=1e-5,
        atol=1e-6,
    )
    np.testing.assert_array_equal(
        ops.convert_to_numpy(matches), logs.argmax(-1) == labels
    )


def test_gradients_are_those_of_the_formula(rng, gradients):
    arguments = case(rng)
    *differentiated, labels, weights, num_tokens = tensors(*arguments)

    def scaled_loss(*differentiated):
        loss, _, _ = projected_cross_entropy(
            *differentiated, labels, weights, num_tokens, SMOOTHING
        )
        # What is upstream scales them, as a loss scale does.
        return 8 * loss

    found = gradients(scaled_loss, differentiated)
    for gradient, array in zip(found, arguments[:3], strict=True):
        expected = 8 * slope(lambda: plain(*arguments), array)
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("num_rows", [13, 3])
def test_blocks_of_rows_give_the_whole(rng, gradients, num_rows):
    """Four blocks, of 3, 3, 3 and 4 rows, and fewer rows than blocks."""
    arguments = case(rng, vocabulary_size=4000, num_rows=num_rows)
    hidden, *others = tensors(*arguments)

    def loss(hidden):
        return projected_cross_entropy(hidden, *others, SMOOTHING)[0]

    np.testing.assert_allclose(
        float(loss(hidden)), plain(*arguments), rtol=1e-5
    )
    (gradient,) = gradients(loss, [hidden])
    # Each row's is its own: that of the row alone.
    states, *middle, labels, weights, num_tokens = arguments
    alone = [states[-1:], *middle, labels[-1:], weights[-1:], num_tokens]
    expected = slope(lambda: plain(*alone), alone[0])
    np.testing.assert_allclose(gradient[-1:], expected, rtol=1e-3, atol=2e-5)


def test_large_logits_give_finite_losses(rng):
    arguments = case(rng, scale=100.0)
    loss, *_ = projected_cross_entropy(*tensors(*arguments), SMOOTHING)
    np.testing.assert_allclose(float(loss), plain(*arguments), rtol=1e-4)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_off_by_its_rounding(rng, dtype):
    arguments = case(rng, vocabulary_size=600, num_rows=40)
    hidden, *rest = tensors(*arguments)
    loss, *_ = projected_cross_entropy(
        ops.cast(hidden, dtype), *rest, SMOOTHING
    )
    unit = {"bfloat16": 2**-8, "float16": 2**-11}[dtype]
    expected = plain(*arguments)
    # Four products a logit, of numbers of about 1, each rounded twice.
    assert abs(float(loss) - expected) < 8 * unit * abs(expected)


# What a loss is computed from: logits, or hidden states and a matrix, in one
# block of rows or two.
FORMS = {"logits": None, "one_block": 9, "two_blocks": 2000}


@pytest.mark.parametrize("smoothing", [0.0, SMOOTHING])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "dtype",
    [
        *("float32", "bfloat16"),
        pytest.param("float16", marks=pytest.mark.large),
        pytest.param("float64", marks=pytest.mark.large),
    ],
)
def test_common_factor_of_weights_changes_nothing(
    rng, gradients, dtype, form, smoothing
):
    """Weights of samples over twelve orders of magnitude, in every dtype."""
    hidden, matrix, bias, labels, weights, _ = case(
        rng, FORMS[form] or 9, num_rows=13
    )
    # Padding stays padding, whatever the factor.
    labels[0] = 0

    def loss_and_gradients(factor):
        scaled = (weights * factor).astype("float32")[None]
        loss = MaskedCrossEntropy(smoothing)

        def of_projection(hidden, matrix, bias):
            found = loss.score_projection(
                labels[None], hidden[None], matrix, bias, scaled, scaled.sum()
            )
            return found.loss

        def of_logits(hidden, matrix, bias):
            logits = ops.matmul(hidden, ops.transpose(matrix)) + bias
            return loss(labels[None], logits[None], scaled)

        function = of_projection if FORMS[form] else of_logits
        tensors = [ops.cast(array, dtype) for array in (hidden, matrix, bias)]
        found = gradients(function, tensors)
        return float(function(*tensors)), [g.astype("float64") for g in found]

    loss, plain = loss_and_gradients(1.0)
    assert loss > 0
    # Weights and sums are rounded otherwise, in float32; then gradients are
    # rounded to the dtype, and the nearest number may be another.
    unit = {"bfloat16": 2**-8, "float16": 2**-11}.get(dtype, 2**-21)
    for factor in (1e-7, 1e5):
        scaled_loss, scaled = loss_and_gradients(factor)
        np.testing.assert_allclose(scaled_loss, loss, rtol=2**-21)
        for gradient, expected in zip(scaled, plain, strict=True):
            limit = 2 * unit * np.abs(expected).max()
            np.testing.assert_allclose(gradient, expected, rtol=0, atol=limit)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_learned_labels_have_gradients_and_no_noise(rng, gradients, dtype):
    """Where `p` is nearly `q`, hundreds of rows have the same label."""
    vocabulary_size, hidden_dim, num_rows = 300, 32, 512
    matrix = rng.normal(size=(vocabulary_size, hidden_dim)) / 4
    labels = rng.integers(0, 3, num_rows)
    hidden = 1.6 * matrix[labels] * 4
    hidden = hidden * (1 + 0.05 * rng.normal(size=hidden.shape))
    # The model's own numbers: what they are rounded to is no error.
    hidden, matrix = (
        ops.convert_to_numpy(ops.cast(array, dtype)).astype("float64")
        for array in (hidden, matrix)
    )
    q = np.full((num_rows, vocabulary_size), 0.1 / (vocabulary_size - 1))
    q[np.arange(num_rows), labels] = 0.9
    slopes = np.exp(log_softmax(hidden @ matrix.T)) - q
    at_label = slopes[np.arange(num_rows), labels]
    assert np.abs(at_label).mean() < 0.15
    states, rows, *rest = tensors(
        hidden, matrix, None, labels, np.ones(num_rows), 1.0
    )
    states = ops.cast(states, dtype)

    def loss(rows):
        return projected_cross_entropy(states, rows, *rest, SMOOTHING)[0]

    (gradient,) = gradients(loss, [rows])
    error = np.abs(gradient - slopes.T @ hidden)
    # The logits, of up to 8, and slopes are rounded; the sums of `p` and of
    # `q`, many times as large as their difference, are not.
    unit = {"bfloat16": 2**-8, "float16": 2**-11}[dtype]
    p = slopes + q
    bound = (8 * p * (1 - p) + np.abs(slopes)).T @ np.abs(hidden)
    assert (error < 2 * unit * bound + 1e-3).all()
