"""Rows of ids of one length: in a graph of TensorFlow, and outside.

KerasHub's `StartEndPacker` pads to one length for all batches. Sentences are
of many lengths: here a batch is as long as its longest row.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from relative_attention.models.transformer import decoder_inputs
from relative_attention.tensor_type import Tensor

# Lengths that are multiples of it are few, so that what is compiled for each
# is compiled less often.
LENGTH_STEP = 8


def padded_length(length: int) -> int:
    """Returns the length that rows of ids have, given the longest."""
    return -(-length // LENGTH_STEP) * LENGTH_STEP


def ended_rows(tokens: Any, end_id: int, length: int | None) -> Any:
    """Puts the end of sentence behind ids, and pads them with 0.

    Args:
        tokens: ids of one sentence or of several, as a tokenizer returns
            them: lists, an array, a tensor or a ragged tensor.
        end_id: int.
        length: int, the length of the rows; of longer ones the first ids are
            kept. `None`: that of the longest row, and up to 7 more.

    Returns:
        int32 `(B, T)`, or `(T,)` of one sentence: an array of what are lists
        or arrays, else a tensor.
    """
    if is_of_tensorflow(tokens):
        return _ended_tensor(tokens, end_id, length)
    is_one = isinstance(tokens, np.ndarray) and tokens.ndim == 1
    rows = [tokens] if is_one else tokens
    rows = [[*_cut(row, length), end_id] for row in rows]
    padded = array_of(rows, length)
    return padded[0] if is_one else padded


def array_of(
    rows: Sequence[Sequence[int]], length: int | None = None
) -> np.ndarray:
    """Makes an int32 array of rows of ids, padded with 0.

    Args:
        rows: ids of each sentence.
        length: int. Defaults to that of the longest row, and up to 7 more.
    """
    if length is None:
        length = padded_length(max(map(len, rows), default=1))
    padded = np.zeros((len(rows), length), "int32")
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row
    return padded


def behind_start(labels: Any, start_token_id: int) -> Any:
    """Returns labels shifted right, behind the start token.

    Args:
        labels: int array or tensor `(..., T)`.
        start_token_id: int.
    """
    # `decoder_inputs` does the same with the backend of Keras; in a pipeline
    # of `tf.data` there is TensorFlow, whatever that backend.
    if isinstance(labels, np.ndarray):
        return decoder_inputs(labels, start_token_id)
    import tensorflow as tf

    start = tf.fill(tf.shape(labels[..., :1]), start_token_id)
    return tf.concat([start, labels[..., :-1]], axis=-1)


def token_weights(mask: Any, sample_weight: Any) -> Any:
    """Returns the weights of tokens, given those of sentences.

    Args:
        mask: bool array or tensor `(..., T)`. `True` = real token.
        sample_weight: `None`, or float `(...)`.

    Returns:
        float32 `(..., T)`.
    """
    if isinstance(mask, np.ndarray):
        weights = mask.astype("float32")
        if sample_weight is None:
            return weights
        return weights * np.asarray(sample_weight, "float32")[..., None]
    import tensorflow as tf

    weights = tf.cast(mask, tf.float32)
    if sample_weight is None:
        return weights
    return weights * tf.cast(sample_weight, tf.float32)[..., None]


def is_of_tensorflow(tokens: Any) -> bool:
    """Tells whether it is a tensor of TensorFlow, without importing that."""
    return type(tokens).__module__.startswith("tensorflow.")


def _cut(row: Sequence[int], length: int | None) -> Sequence[int]:
    """Leaves room for the end of sentence."""
    return row if length is None else row[: max(0, length - 1)]


def _ended_tensor(tokens: Tensor, end_id: int, length: int | None) -> Tensor:
    """Does the same as `ended_rows` in a graph."""
    import tensorflow as tf

    is_one = isinstance(tokens, tf.Tensor) and tokens.shape.rank == 1
    rows = tokens[None] if is_one else tokens
    if not isinstance(rows, tf.RaggedTensor):
        rows = tf.RaggedTensor.from_tensor(rows)
    if length is not None:
        rows = rows[:, : max(0, length - 1)]
    ends = tf.fill([rows.nrows(), 1], tf.cast(end_id, rows.dtype))
    rows = tf.concat([rows, tf.RaggedTensor.from_tensor(ends)], axis=1)
    padded = rows.to_tensor(0, shape=(None, length))
    if length is None:
        longest = tf.shape(padded)[1]
        padded = tf.pad(padded, [[0, 0], [0, -longest % LENGTH_STEP]])
    padded = tf.cast(padded, tf.int32)
    return padded[0] if is_one else padded
