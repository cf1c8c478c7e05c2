"""Attention of one position, against NumPy and against a whole pass."""

import numpy as np
import pytest
from keras import ops

from relative_attention.ops import step_attention
from relative_attention.ops.attention import masked_softmax


@pytest.mark.parametrize("own", [True, False], ids=["own", "keras"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("num_beams", [1, 2])
def test_every_vector_meets_the_matrix_of_its_sentence_and_head(
    monkeypatch, rng, num_beams, dtype, own
):
    monkeypatch.setattr(step_attention, "prefers_own_kernels", lambda: own)
    # Small integers, so that every order of sums gives the same, and every
    # precision: at most 5 * 9.
    vectors = rng.integers(-3, 4, (2, num_beams, 3, 5))
    for batch_size in (2, 1):
        matrices = rng.integers(-3, 4, (batch_size, 3, 5, 4))
        expected = np.einsum(
            "bmni,bnij->bmnj", vectors, np.broadcast_to(matrices, (2, 3, 5, 4))
        )
        for transpose in (False, True):
            given = matrices.swapaxes(-1, -2) if transpose else matrices
            products = step_attention.step_product(
                ops.cast(vectors, dtype), ops.cast(given, dtype), transpose
            )
            assert products.dtype == ops.cast(vectors, dtype).dtype
            np.testing.assert_array_equal(
                ops.convert_to_numpy(ops.cast(products, "int32")), expected
            )


@pytest.mark.parametrize("own", [True, False], ids=["own", "keras"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("num_keys", [1, 6])
def test_scores_of_a_step_are_those_of_a_pass(
    monkeypatch, rng, num_keys, dtype, own
):
    monkeypatch.setattr(step_attention, "prefers_own_kernels", lambda: own)
    logits = ops.cast(rng.normal(size=(2, 3, 2, num_keys)), dtype)
    mask = ops.array(rng.integers(0, 2, (2, 1, 1, num_keys)).astype("bool"))
    for given in (None, mask, ops.zeros_like(mask)):
        scores = step_attention.step_scores(logits, given)
        expected = masked_softmax(logits, given)
        assert scores.dtype == logits.dtype
        # Sums of six numbers, made in float32 at least.
        np.testing.assert_allclose(
            ops.convert_to_numpy(scores).astype("float64"),
            ops.convert_to_numpy(expected).astype("float64"),
            rtol=2.0**-7 if "16" in dtype else 1e-6,
        )
