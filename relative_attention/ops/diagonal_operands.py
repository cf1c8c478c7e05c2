"""The operands of attention along diagonals, and their gradients."""

from typing import NamedTuple

from keras import ops

from relative_attention.ops.block_operands import transposed
from relative_attention.ops.precision import widened
from relative_attention.tensor_type import Tensor


class Operands(NamedTuple):
    """The tensors that blocks multiply, or the gradients of these.

    Attributes:
        query: float tensor `(B, N, T, H)`, scaled.
        key: float tensor `(B, N, T, H)`.
        value: float tensor `(B, N, T, H_v)`.
        key_rows: float tensor `(rows, H)` or `(N, rows, H)`, see `table_rows`;
            or `None`.
        value_rows: float tensor, likewise, and last of all `w^V_-K`; or `None`.
        has_ahead: A boolean to indicate whether the first of the rows is that
            of the keys ahead.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    key_rows: Tensor | None
    value_rows: Tensor | None
    has_ahead: bool

    def products(self, rows: Tensor, x: Tensor) -> Tensor:
        """Multiplies vectors `(B, N, C, H)` by the row of each distance.

        Returns:
            Tensor `(B, N, distances, C)`.
        """
        distances = rows[..., 1:, :] if self.has_ahead else rows
        return ops.matmul(_of_every_head(distances, x), transposed(x))


def table_rows(
    table: Tensor, length: int, is_causal: bool, has_ahead: bool
) -> tuple[Tensor, Tensor]:
    """Takes the embedding of the farthest distance back out of a table.

    Args:
        table: float tensor `(2K + 1, H)`, or `(N, 2K + 1, H)`.
        length: int. Number `T` of tokens.
        is_causal: A boolean to indicate whether keys ahead are left out.
        has_ahead: A boolean to indicate whether the keys that are farther
            ahead than all diagonals have a row of their own, the first.

    Returns:
        Pair of the rows `r_d = w_d - w_-K`, from the highest distance down to
        `-K + 1`, and of `w_-K`, `(..., 1, H)`. Distances that no pair of
        tokens has are left out.
    """
    middle = table.shape[-2] // 2
    farthest = min(middle, length - 1)
    stop = middle + (1 if is_causal else farthest + 1)
    back = table[..., middle - farthest : middle - farthest + 1, :]
    rows = table[..., middle - farthest + 1 : stop, :] - back
    rows = ops.flip(rows, axis=-2)
    if has_ahead:
        rows = ops.concatenate([rows[..., :1, :], rows], axis=-2)
    return rows, back


def sum_of_rows(by_distance: Tensor, rows: Tensor) -> Tensor:
    """Multiplies sums by distance `(B, N, rows, C)` by rows, `(B, N, C, H)`."""
    rows = _of_every_head(rows, by_distance)
    return ops.matmul(transposed(by_distance), rows)


def rows_gradient(by_distance: Tensor, x: Tensor, rows: Tensor) -> Tensor:
    """Computes the gradient of rows, summed over sentences, in float32."""
    gradient = ops.matmul(widened(by_distance), widened(x))
    return ops.sum(gradient, axis=0 if len(rows.shape) == 3 else (0, 1))


def _of_every_head(rows: Tensor, x: Tensor) -> Tensor:
    # Broadcast here, as oneDNN's products with broadcast axes are not to be
    # trusted (`table_product.py`).
    batch_size, num_heads = ops.shape(x)[:2]
    return ops.broadcast_to(rows, (batch_size, num_heads, *rows.shape[-2:]))
