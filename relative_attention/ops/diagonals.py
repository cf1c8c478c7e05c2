"""Diagonals of matrices of scores, read and written in place by TensorFlow.

Keys at one distance from their queries are a diagonal. For three queries, the
first of them at position 1, five keys and the distances from 1 to -1:

    key       0  1  2  3  4             query     0  1  2
    query 0   a  b  c  .  .             distance
    query 1   .  d  e  f  .      ->         1     c  f  i
    query 2   .  .  g  h  i                 0     b  e  h
                                           -1     a  d  g
"""

from keras import ops

from relative_attention.tensor_type import Tensor

# With it, column `c` belongs to query `c`, be a diagonal above or below the
# main one; it is zero where there is no such key.
_ALIGN = "LEFT_RIGHT"


def diagonals(matrix: Tensor, lowest: int, highest: int) -> Tensor:
    """Reads diagonals of matrices.

    Args:
        matrix: tensor `(B, N, C, S)`.
        lowest: int, the last diagonal, of those above `-C`; 0 is the main one.
        highest: int, the first diagonal, of those below `S`. One of them, from
            `highest` to `lowest`, must have a key for every query.

    Returns:
        Tensor `(B, N, highest - lowest + 1, C)`.
    """
    import tensorflow as tf

    read = tf.raw_ops.MatrixDiagPartV3(
        input=matrix,
        k=[lowest, highest],
        padding_value=tf.zeros((), matrix.dtype),
        align=_ALIGN,
    )
    # Of a single diagonal TensorFlow leaves out the axis.
    return ops.expand_dims(read, 2) if lowest == highest else read


def add_to_diagonals(
    matrix: Tensor, more: Tensor, lowest: int, highest: int
) -> Tensor:
    """Adds to diagonals of matrices.

    TensorFlow writes them into `matrix` itself where that is not needed any
    more: an addition of whole matrices would take far longer.

    Args:
        matrix: tensor `(B, N, C, S)`.
        more: tensor `(B, N, highest - lowest + 1, C)`.
        lowest: see `diagonals`.
        highest: see `diagonals`.

    Returns:
        Tensor of the shape of `matrix`.
    """
    import tensorflow as tf

    total = diagonals(matrix, lowest, highest) + more
    return tf.raw_ops.MatrixSetDiagV3(
        input=matrix,
        diagonal=ops.squeeze(total, 2) if lowest == highest else total,
        k=[lowest, highest],
        align=_ALIGN,
    )
