import keras
import numpy as np
import pytest

from relative_attention.training import TokenAccuracy

V = 5


@pytest.fixture
def batches(rng):
    """Two batches of different sizes, with padding."""
    batches = []
    for shape in ((2, 5), (3, 7)):
        labels = rng.integers(1, V, size=shape).astype("int32")
        labels[0, 2:] = 0
        logits = rng.normal(size=(*shape, V))
        batches.append((labels, logits.astype("float32")))
    return batches


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


def test_config_survives_serialization():
    metric = TokenAccuracy(name="valid")
    clone = keras.metrics.deserialize(keras.metrics.serialize(metric))
    assert isinstance(clone, TokenAccuracy)
    assert clone.get_config() == metric.get_config()
    assert TokenAccuracy().name == "accuracy"
