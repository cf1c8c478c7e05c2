"""Ops put together are tensor2tensor's `dot_product_attention_relative`."""

import numpy as np
import pytest
from keras import ops

from relative_attention.ops import attention_context
from relative_attention.ops import attention_logits
from relative_attention.ops import clipped_relative_positions
from relative_attention.ops import masked_softmax

OPERANDS = ("q", "k", "v", "keys_embeddings", "values_embeddings")
CASES = (*range(6), 7, *range(9, 20))
# The one with a sentence in which every key is masked.
FULL_ROW = 11


@pytest.fixture
def load(golden):
    """The arrays of a case by name, and its relative positions."""
    golden = golden("A3B_dot_product_attention_relative")

    def load(case):
        info, arrays = golden.case(case)
        assert (info["bias"] == "padding_full_row") == (case == FULL_ROW)
        keys = np.arange(info["length_k"])
        # Queries are the last positions: all, those after a memory, or the
        # one that is decoded.
        relative_positions = clipped_relative_positions(
            keys[-info["length_q"] :], keys, info["max_relative_position"]
        )
        return arrays, relative_positions

    return load


def attend(operands, relative_positions, bias=None, mask=None):
    """Logits, scores and outputs, as of the layer but for its projections."""
    query, key, value, key_table, value_table = operands
    logits = attention_logits(
        query, key, ops.take(key_table, relative_positions, axis=0)
    )
    if bias is not None:
        logits = ops.add(logits, bias)
    scores = masked_softmax(logits, mask)
    context = attention_context(
        scores, value, ops.take(value_table, relative_positions, axis=0)
    )
    return logits, scores, context


def assert_same(result, expected):
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_logits_scores_and_outputs_are_tensor2tensors(load, case):
    data, relative_positions = load(case)
    results = attend(
        [data[name] for name in OPERANDS], relative_positions, data.get("bias")
    )
    for name, result in zip(("logits", "weights", "output"), results):
        assert_same(result, data[name])


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_tensor2tensors(load, gradients, case):
    data, relative_positions = load(case)
    results = gradients(
        lambda *operands: ops.sum(
            ops.multiply(
                attend(operands, relative_positions, data.get("bias"))[-1],
                data["grad_projection"],
            )
        ),
        [data[name] for name in OPERANDS],
    )
    for name, result in zip(OPERANDS, results, strict=True):
        assert_same(result, data[f"grad_{name}"])


@pytest.mark.parametrize("case", sorted({*CASES} - {FULL_ROW}))
def test_mask_is_tensor2tensors_bias(load, case):
    data, relative_positions = load(case)
    mask = data["bias"] > -1 if "bias" in data else None
    _, scores, context = attend(
        [data[name] for name in OPERANDS], relative_positions, mask=mask
    )
    assert_same(scores, data["weights"])
    assert_same(context, data["output"])


def test_fully_masked_row_is_zero_where_tensor2tensors_is_uniform(load):
    data, relative_positions = load(FULL_ROW)
    mask = data["bias"] > -1
    is_empty = ~mask.any(axis=(1, 2, 3))
    np.testing.assert_array_equal(is_empty, [False, True])
    length = data["k"].shape[2]
    np.testing.assert_array_equal(
        data["weights"][is_empty], 1 / np.float32(length)
    )
    _, scores, context = (
        np.array(result)
        for result in attend(
            [data[name] for name in OPERANDS], relative_positions, mask=mask
        )
    )
    assert not scores[is_empty].any()
    assert not context[is_empty].any()
    assert_same(scores[~is_empty], data["weights"][~is_empty])
    assert_same(context[~is_empty], data["output"][~is_empty])
