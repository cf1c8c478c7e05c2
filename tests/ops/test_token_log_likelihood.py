import numpy as np
import pytest
from keras import ops

from relative_attention.ops.token_log_likelihood import label_logit
from relative_attention.ops.token_log_likelihood import largest_logit
from relative_attention.ops.token_log_likelihood import log_normalizer
from relative_attention.ops.token_log_likelihood import map_row_chunks
from relative_attention.ops.token_log_likelihood import token_weights

# Rows of probabilities 1/4, 3/4 and 1/2, 1/2; the second less by a number.
LOGITS = np.log(np.array([[1, 3], [0.5, 0.5]], "float32"))


def test_normalizer_is_the_logarithm_of_the_sum():
    np.testing.assert_allclose(
        log_normalizer(ops.array(LOGITS)), np.log([4, 1]), atol=1e-6
    )


def test_label_and_largest_logits_are_picked():
    logits, labels = ops.array(LOGITS), ops.array([0, 1], "int32")
    np.testing.assert_array_equal(
        label_logit(logits, labels), LOGITS[[0, 1], [0, 1]]
    )
    np.testing.assert_array_equal(largest_logit(logits), LOGITS.max(-1))
    assert tuple(largest_logit(logits[:0]).shape) == (0,)


@pytest.mark.parametrize("vocabulary_size", [7, 2000])
@pytest.mark.parametrize("num_rows", [0, 1, 5])
def test_rows_in_chunks_are_all_rows(num_rows, vocabulary_size):
    logits = ops.ones((num_rows, vocabulary_size), "float16")
    column = ops.arange(num_rows, dtype="float32")
    result = map_row_chunks(
        lambda rows, numbers: numbers + ops.sum(rows, axis=-1), logits, column
    )
    # Beyond 2048 float16 has no odd numbers; sums are in float32.
    np.testing.assert_array_equal(result, np.arange(num_rows) + vocabulary_size)


def test_padding_has_no_weight():
    labels = ops.array([[5, 1, 0], [2, 0, 0]], "int32")
    np.testing.assert_array_equal(token_weights(labels), [[1, 1, 0], [1, 0, 0]])
    np.testing.assert_array_equal(
        token_weights(labels, ops.array([2.0, 3.0])), [[2, 2, 0], [3, 0, 0]]
    )
