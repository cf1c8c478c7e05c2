"""Rows of token ids that become a column longer at every step.

`GrowingColumns` have as many columns as steps are done, so that nothing is
computed for what is not there; `FixedColumns` have all from the beginning, for
a loop that XLA compiles, where every tensor keeps its shape.
"""

import dataclasses

from keras import ops

from relative_attention.tensor_type import Tensor


@dataclasses.dataclass(frozen=True)
class GrowingColumns:
    """Columns of the steps that are done, no others."""

    def start(self, shape: tuple[int | Tensor, ...]) -> Tensor:
        """Returns int32 rows `(*shape, 0)` before the first step."""
        return ops.zeros((*shape, 0), "int32")

    def append(self, rows: Tensor, column: Tensor, position: Tensor) -> Tensor:
        """Returns rows with a column at `position`, the next one.

        Args:
            rows: int tensor `(..., p)`.
            column: int tensor `(...,)`.
            position: int scalar.
        """
        return ops.concatenate([rows, column[..., None]], axis=-1)

    def at(self, rows: Tensor, position: Tensor) -> Tensor:
        """Returns the column at `position`, the last one."""
        return rows[..., -1]

    def pad(self, rows: Tensor) -> Tensor:
        """Returns rows `(B, M, p)` as wide as those with one more column."""
        return ops.pad(rows, ((0, 0), (0, 0), (0, 1)))


@dataclasses.dataclass(frozen=True)
class FixedColumns:
    """All columns that there may be, id 0 where no step has been.

    Args:
        num_positions: int `P`.
    """

    num_positions: int

    def start(self, shape: tuple[int | Tensor, ...]) -> Tensor:
        """Returns int32 rows `(*shape, P)` before the first step."""
        return ops.zeros((*shape, self.num_positions), "int32")

    def append(self, rows: Tensor, column: Tensor, position: Tensor) -> Tensor:
        """Returns rows with a column at `position`.

        Args:
            rows: int tensor `(..., P)`.
            column: int tensor `(...,)`.
            position: int scalar.
        """
        positions = ops.arange(self.num_positions, dtype="int32")
        return ops.where(positions == position, column[..., None], rows)

    def at(self, rows: Tensor, position: Tensor) -> Tensor:
        """Returns the column at `position`."""
        return ops.take(rows, position, axis=-1)

    def pad(self, rows: Tensor) -> Tensor:
        """Returns the rows, which are as wide as all others."""
        return rows


Columns = GrowingColumns | FixedColumns
