"""Perplexity and accuracy of real tokens."""

import keras
import numpy as np
import pytest

from relative_attention.ops.cross_entropy import TokenScores
from relative_attention.training import Perplexity
from relative_attention.training import TokenAccuracy
from tests.ops.test_cross_entropy import token_losses

V = 11


@pytest.fixture
def batches(rng):
    """Two batches of different sizes, with padding."""
    batches = []
    for shape in ((2, 5), (3, 7)):
        labels = rng.integers(1, V, size=shape).astype("int32")
        labels[0, 2:] = 0
        logits = 2 * rng.normal(size=(*shape, V))
        batches.append((labels, logits.astype("float32")))
    return batches


def scores(labels, logits):
    """Negative log-likelihoods in float64, and matches: `(B, T)` each."""
    losses = token_losses(logits, labels, smoothing=0.0)
    return losses, logits.argmax(-1) == labels


def expected(metric, batches):
    number = 0 if metric is Perplexity else 1
    mean = np.concatenate(
        [scores(*batch)[number][batch[0] != 0] for batch in batches]
    ).mean()
    return np.exp(mean) if metric is Perplexity else mean


BOTH = pytest.mark.parametrize("metric", [Perplexity, TokenAccuracy])


@BOTH
@pytest.mark.parametrize("has_logits", [True, False])
def test_result_counts_real_tokens_of_batches_of_any_length(
    batches, metric, has_logits
):
    ours = metric()
    for labels, logits in batches:
        given = logits
        if not has_logits:
            given = TokenScores(
                *(
                    keras.ops.cast(score, "float32")
                    for score in scores(labels, logits)
                )
            )
        ours.update_state(labels, given)
    np.testing.assert_allclose(
        ours.result(), expected(metric, batches), rtol=1e-5
    )
    ours.reset_state()
    ours.update_state(*batches[1])
    np.testing.assert_allclose(
        ours.result(), expected(metric, batches[1:]), rtol=1e-5
    )


@BOTH
def test_sentences_of_weight_zero_do_not_count(batches, metric):
    labels, logits = batches[0]
    weighted = metric()
    weighted.update_state(labels, logits, sample_weight=np.array([1.0, 0.0]))
    np.testing.assert_allclose(
        weighted.result(), expected(metric, [(labels[:1], logits[:1])]), 1e-5
    )


def test_padding_counts_neither_way_and_a_tie_as_right():
    labels = np.array([[2, 0, 0, 5]])
    logits = np.zeros((1, 4, V), "float32")
    logits[0, 0, 2] = logits[0, 1, 0] = logits[0, 2, 3] = 1
    metric = TokenAccuracy()
    metric.update_state(labels, logits)
    assert float(metric.result()) == 1


@BOTH
def test_config_survives_serialization(metric):
    ours = metric(name="valid")
    clone = keras.metrics.deserialize(keras.metrics.serialize(ours))
    assert isinstance(clone, metric)
    assert clone.get_config() == ours.get_config()
