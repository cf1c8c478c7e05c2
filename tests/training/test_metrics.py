"""Perplexity and accuracy of real tokens."""

import keras
import keras_hub
import numpy as np
import pytest

from relative_attention.ops.losses import TokenScores
from relative_attention.training import Perplexity
from relative_attention.training import TokenAccuracy

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


def log_likelihoods(labels, logits):
    """Of the real tokens, in float64."""
    logits = logits.astype("float64")
    logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
    chosen = np.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return chosen[labels != 0]


def test_result_is_the_exponential_of_the_mean_over_all_tokens(batches):
    metric = Perplexity()
    for labels, logits in batches:
        metric.update_state(labels, logits)
    tokens = np.concatenate([log_likelihoods(*batch) for batch in batches])
    np.testing.assert_allclose(
        metric.result(), np.exp(-tokens.mean()), rtol=1e-5
    )


def test_scores_without_logits_count_by_token_in_batches_of_any_length(
    batches,
):
    for metric in (Perplexity(), TokenAccuracy()):
        expected = []
        for labels, logits in batches:
            likelihoods = np.zeros(labels.shape)
            likelihoods[labels != 0] = log_likelihoods(labels, logits)
            matches = np.equal(logits.argmax(-1), labels)
            metric.update_state(
                labels,
                TokenScores(
                    keras.ops.cast(-likelihoods, "float32"),
                    keras.ops.cast(matches, "float32"),
                ),
            )
            expected += list(
                -log_likelihoods(labels, logits)
                if isinstance(metric, Perplexity)
                else matches[labels != 0]
            )
        mean = np.mean(expected)
        np.testing.assert_allclose(
            metric.result(),
            np.exp(mean) if isinstance(metric, Perplexity) else mean,
            rtol=1e-5,
        )


def test_result_is_keras_hubs_for_a_batch(batches):
    for labels, logits in batches:
        metric = Perplexity()
        metric.update_state(labels, logits)
        expected = keras_hub.metrics.Perplexity(
            from_logits=True, mask_token_id=0
        )
        expected.update_state(labels, logits)
        np.testing.assert_allclose(
            metric.result(), expected.result(), rtol=1e-5
        )


def test_reset_forgets(batches):
    metric = Perplexity()
    metric.update_state(*batches[0])
    metric.reset_state()
    metric.update_state(*batches[1])
    np.testing.assert_allclose(
        metric.result(),
        np.exp(-log_likelihoods(*batches[1]).mean()),
        rtol=1e-5,
    )


def test_uniform_guess_has_the_perplexity_of_the_vocabulary(batches):
    metric = Perplexity()
    for labels, logits in batches:
        metric.update_state(labels, np.zeros_like(logits))
    np.testing.assert_allclose(metric.result(), V, rtol=1e-5)


def test_half_precision_logits_are_computed_in_float32(batches):
    labels, logits = batches[0]
    half = keras.ops.cast(logits, "bfloat16")
    metric = Perplexity()
    metric.update_state(labels, half)
    rounded = np.array(keras.ops.cast(half, "float32"))
    np.testing.assert_allclose(
        metric.result(),
        np.exp(-log_likelihoods(labels, rounded).mean()),
        rtol=1e-5,
    )


def test_config_survives_serialization():
    metric = Perplexity(name="valid")
    clone = keras.metrics.deserialize(keras.metrics.serialize(metric))
    assert isinstance(clone, Perplexity)
    assert clone.get_config() == metric.get_config()
    assert clone.name == "valid"
    assert Perplexity().name == "perplexity"


def test_perplexity_when_sentences_are_weighted(rng):
    labels = np.array([[3, 4, 1], [2, 1, 0]])
    logits = rng.normal(size=(2, 3, 5)).astype("float32")
    weighted, alone = Perplexity(), Perplexity()
    weighted.update_state(labels, logits, sample_weight=np.array([1.0, 0.0]))
    alone.update_state(labels[:1], logits[:1])
    np.testing.assert_allclose(weighted.result(), alone.result(), rtol=1e-6)


# === Accuracy ===


def test_result_is_the_share_of_real_tokens_over_all_batches(batches):
    metric = TokenAccuracy()
    matches = []
    for labels, logits in batches:
        metric.update_state(labels, logits)
        matches.append((logits.argmax(-1) == labels)[labels != 0])
    expected = np.concatenate(matches).mean()
    assert 0 < expected < 1
    np.testing.assert_allclose(metric.result(), expected, rtol=1e-6)
    metric.reset_state()
    metric.update_state(*batches[1])
    np.testing.assert_allclose(metric.result(), matches[1].mean(), rtol=1e-6)


def test_padding_counts_neither_way():
    labels = np.array([[2, 0, 0]])
    logits = np.zeros((1, 3, V), "float32")
    logits[0, 0, 2] = 1
    logits[0, 1, 0] = 1
    logits[0, 2, 3] = 1
    metric = TokenAccuracy()
    metric.update_state(labels, logits)
    assert float(metric.result()) == 1


def test_tie_counts_as_right():
    metric = TokenAccuracy()
    metric.update_state(np.array([[2, 3]]), np.zeros((1, 2, V), "float32"))
    assert float(metric.result()) == 1


def test_accuracy_survives_serialization():
    metric = TokenAccuracy(name="valid")
    clone = keras.metrics.deserialize(keras.metrics.serialize(metric))
    assert isinstance(clone, TokenAccuracy)
    assert clone.get_config() == metric.get_config()
    assert TokenAccuracy().name == "accuracy"
