"""Products with a table of embeddings that heads share or each has its own."""

import math
from collections.abc import Callable
from collections.abc import Sequence

from keras import ops

from relative_attention.ops.custom_gradient import custom_gradient
from relative_attention.ops.precision import widened
from relative_attention.ops.static_shape import sizes
from relative_attention.ops.static_shape import static_shape
from relative_attention.tensor_type import Tensor


def table_product(x: Tensor, table: Tensor) -> Tensor:
    """Multiplies the vectors of every head by the table, or by the head's own.

    The table may be in float32 where `x` is in half precision: the product is
    in the dtype of `x`, the gradient of the table a sum in float32.

    Args:
        x: float tensor `(B, N, C, I)`.
        table: float tensor `(I, J)`, or `(N, I, J)`.

    Returns:
        Float tensor `(B, N, C, J)`, of the dtype of `x`.
    """
    x, table = ops.convert_to_tensor(x), ops.convert_to_tensor(table)
    if table.dtype == x.dtype:
        return _product(x, table)

    @custom_gradient
    def multiply(
        x: Tensor, table: Tensor
    ) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor, Tensor]]]:
        narrow = ops.cast(table, x.dtype)

        def gradient(upstream: Tensor) -> tuple[Tensor, Tensor]:
            return (
                _product(upstream, ops.swapaxes(narrow, -1, -2)),
                ops.cast(table_gradient(x, upstream, table.shape), table.dtype),
            )

        return _product(x, narrow), gradient

    # Copied, as TensorFlow takes a variable for no argument.
    return multiply(x, ops.copy(table))


def table_gradient(x: Tensor, upstream: Tensor, shape: Sequence[int]) -> Tensor:
    """Computes the gradient of a table: the sum of all `x^T upstream`.

    Args:
        x: float tensor `(B, N, C, I)`.
        upstream: float tensor `(B, N, C, J)`.
        shape: that of the table, `(I, J)` or `(N, I, J)`.

    Returns:
        Tensor of that shape, in float32 if `x` is in half precision.
    """
    x, upstream = widened(x), widened(upstream)
    if _is_per_head(shape):
        return ops.sum(ops.matmul(ops.swapaxes(x, -1, -2), upstream), axis=0)
    summed = ops.matmul(ops.transpose(_as_matrix(x)), _as_matrix(upstream))
    return ops.reshape(summed, (*shape[:-2], *sizes(summed)))


def _product(x: Tensor, table: Tensor) -> Tensor:
    if _is_per_head(table.shape):
        return ops.matmul(x, table)
    if len(table.shape) == 3:
        table = ops.squeeze(table, 0)
    # As a matrix, in whose place Keras would put a dozen small operations.
    product = ops.matmul(_as_matrix(x), table)
    return ops.reshape(product, (*static_shape(x)[:3], sizes(table)[1]))


def _is_per_head(shape: Sequence[int]) -> bool:
    """Returns whether heads have tables of their own; a single one has not.

    A table of a single head is one that all heads share. As a product with
    its only axis broadcast over sentences, `(B, 1, C, I) @ (1, I, J)`, oneDNN
    in TensorFlow 2.21 gives wrong numbers or ends the process.
    """
    return len(shape) == 3 and shape[0] != 1


def _as_matrix(x: Tensor) -> Tensor:
    """Returns all rows of a tensor, which may be empty, as a matrix."""
    width = x.shape[-1]
    if width:
        return ops.reshape(x, (-1, width))
    # With rows of no numbers, their count cannot be inferred.
    *lengths, width = sizes(x)
    return ops.reshape(x, (math.prod(lengths), width))
