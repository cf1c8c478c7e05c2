import keras
import numpy as np
import pytest
from keras import ops

from relative_attention.ops import attention_context
from relative_attention.ops import attention_logits
from relative_attention.ops import masked_softmax

B, N, T, S, H = 2, 3, 5, 7, 11


def normal(rng, *shape):
    return rng.normal(size=shape).astype("float32")


@pytest.fixture
def logits(rng):
    return 3 * normal(rng, B, N, T, S)


@pytest.fixture
def mask(rng):
    """Each query may attend to some keys; query 2 of sentence 1 to none."""
    mask = rng.random((B, 1, T, S)) < 0.6
    mask[..., 0] = True
    mask[1, :, 2] = False
    return mask


def test_masked_softmax_without_mask_is_softmax(logits):
    exponentials = np.exp(logits.astype("float64"))
    np.testing.assert_allclose(
        masked_softmax(ops.array(logits)),
        exponentials / exponentials.sum(-1, keepdims=True),
        rtol=1e-5,
    )


def test_masked_softmax_is_softmax_over_the_keys_left(logits, mask):
    exponentials = np.exp(logits.astype("float64")) * mask
    sums = exponentials.sum(-1, keepdims=True)
    expected = exponentials / np.where(sums == 0, 1, sums)
    scores = np.array(masked_softmax(ops.array(logits), mask))
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    assert not scores[1, :, 2].any()
    assert not scores[~np.broadcast_to(mask, scores.shape)].any()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_masked_softmax_is_finite_in_half_precision(logits, mask, dtype):
    # 60,000 is near the largest float16; -1e9 lies beyond it.
    logits[0, 0, 0] = 60_000
    scores = masked_softmax(ops.cast(logits, dtype), mask)
    assert keras.backend.standardize_dtype(scores.dtype) == dtype
    scores = np.array(ops.cast(scores, "float32"))
    assert np.isfinite(scores).all()
    assert not scores[1, :, 2].any()
    np.testing.assert_allclose(
        scores, masked_softmax(ops.array(logits), mask), rtol=1e-2, atol=1e-2
    )


def test_masked_softmax_has_finite_gradients_where_all_is_masked(
    logits, mask, gradients
):
    (gradient,) = gradients(
        lambda logits: ops.sum(ops.square(masked_softmax(logits, mask))),
        [logits],
    )
    assert np.isfinite(gradient).all()
    assert gradient.any()
    assert not gradient[1, :, 2].any()


def test_attention_with_zero_relations_is_without(rng):
    query, key, value = (normal(rng, B, N, size, H) for size in (T, S, S))
    scores = normal(rng, B, N, T, S)
    relations = np.zeros((T, S, H), "float32")
    np.testing.assert_allclose(
        attention_logits(query, key, relations),
        attention_logits(query, key),
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        attention_context(scores, value, relations),
        attention_context(scores, value),
        rtol=1e-6,
    )
