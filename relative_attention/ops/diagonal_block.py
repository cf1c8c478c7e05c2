"""The geometry of a block of queries whose relations lie on diagonals.

With `K = 2`, a block of the queries 2 to 6 of twelve tokens, of keys in
stretches of four, has

    key       0  1  2  3 | 4  5  6  7 | 8  9 10 11
    query 2      n  n  n | N  a  a  a | a  a  a  a
    query 3         n  n | N  N  a  a | a  a  a  a
    query 4            n | N  N  N  a | a  a  a  a
    query 5              | N  N  N  N | a  a  a  a
    query 6              |    n  n  n | N  a  a  a

`n` and `N` are the diagonals of the distances from `-K + 1` to `K`. Keys
farther back need nothing, as the embedding of `-K` was taken from all others
(`diagonal_attention.py`). Keys farther ahead than `K` are `a`; they all have
one relation, the one of `K`. It is added stretch by stretch, from the first
that begins among the diagonals of a query or behind them, to `N` too; so from
`N` it is taken off again, where diagonals are added.
"""

import dataclasses

from keras import ops

from relative_attention.ops.attention_block import Region
from relative_attention.ops.diagonals import add_to_diagonals
from relative_attention.ops.diagonals import diagonals
from relative_attention.tensor_type import Tensor


@dataclasses.dataclass(frozen=True)
class DiagonalBlock:
    """Queries `start` to `stop` and all keys before `end`.

    Attributes:
        start: int. The first query.
        stop: int. The end of the queries.
        end: int. The end of the keys.
        max_relative_position: int. Clipping distance `K`, less than the number
            of queries and at least 1.
        is_causal: A boolean to indicate whether queries attend only to their
            own and earlier positions.
        stretch: int. Length of a stretch of keys; 0 where no key is
            farther ahead than `K`, or may be attended to.
    """

    start: int
    stop: int
    end: int
    max_relative_position: int
    is_causal: bool
    stretch: int

    @property
    def length(self) -> int:
        """The number of queries, `C`."""
        return self.stop - self.start

    def regions(self) -> list[Region]:
        """Returns the region of all keys, for `draw_keep_masks`."""
        return [Region("near", 0, self.end)]

    def queries(self, tensor: Tensor) -> Tensor:
        """Returns the block's rows of a tensor `(B, N, T, H)`."""
        return tensor[:, :, self.start : self.stop]

    def keys(self, tensor: Tensor) -> Tensor:
        """Returns the rows of the keys of a tensor `(B, N, T, H)`."""
        return tensor[:, :, : self.end]

    def near_and_ahead(
        self, by_distance: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Parts what belongs to distances into diagonals and stretches.

        Args:
            by_distance: tensor `(B, N, D, C)`, of the distances from `K`, or 0
                with a causal mask, down to `-K + 1`.

        Returns:
            Pair of a tensor of the same shape, for `add_near`, and a tensor
            `(B, N, C, stretches)` for `add_ahead`; `None` without stretches.
        """
        if not self.stretch:
            return by_distance, None
        batch_size, num_heads = ops.shape(by_distance)[:2]
        farthest = by_distance[:, :, :1]
        near = by_distance - farthest * self._like(self._is_both, by_distance)
        farthest = ops.reshape(
            farthest, (batch_size, num_heads, self.length, 1)
        )
        return near, farthest * self._like(self._is_ahead, by_distance)

    def add_near(self, scores: Tensor, near: Tensor) -> Tensor:
        """Adds to scores `(B, N, C, keys)` on the diagonals."""
        near = ops.cast(near, scores.dtype)
        return add_to_diagonals(scores, near, *self._diagonals)

    def add_ahead(self, scores: Tensor, ahead: Tensor) -> Tensor:
        """Adds to scores `(B, N, C, keys)` stretch by stretch.

        Args:
            scores: float tensor `(B, N, C, keys)`.
            ahead: float tensor `(B, N, C, stretches)`, or `(B, N, C, 1)`.
        """
        if ahead.shape[-1] == 1:
            return scores + ops.cast(ahead, scores.dtype)
        shape = ops.shape(scores)
        ahead = ops.cast(ahead[..., None], scores.dtype)
        scores = self._in_stretches(scores) + ahead
        return ops.reshape(scores, shape)

    def sum_stretches(self, scores: Tensor) -> Tensor:
        """Sums scores over each stretch of keys, `(B, N, C, stretches)`."""
        return ops.sum(self._in_stretches(scores), axis=-1)

    def sum_distances(self, scores: Tensor) -> list[Tensor]:
        """Sums scores by distance, the transpose of all that is added.

        Args:
            scores: float tensor `(B, N, C, keys)`.

        Returns:
            List of a tensor `(B, N, D, C)`, of the distances from the highest
            down, and, if there are stretches, `(B, N, 1, C)`, what keys ahead
            have more.
        """
        near = diagonals(scores, *self._diagonals)
        if not self.stretch:
            return [near]
        sums = self.sum_stretches(scores)
        ahead = ops.sum(sums * self._like(self._is_ahead, scores), axis=-1)
        both = ops.sum(near * self._like(self._is_both, scores), axis=2)
        return [near, ops.expand_dims(ahead - both, 2)]

    @property
    def _diagonals(self) -> tuple[int, int]:
        """The last and the first diagonal."""
        highest = 0 if self.is_causal else self.max_relative_position
        lowest = 1 - self.max_relative_position
        return self.start + lowest, self.start + highest

    @property
    def _first_ahead(self) -> Tensor:
        """The stretch from which on keys are ahead of a query, `(C,)`."""
        lowest = 1 - self.max_relative_position
        keys = ops.arange(
            self.start + lowest, self.stop + lowest, dtype="int32"
        )
        return -ops.floor_divide(-keys, self.stretch)

    @property
    def _is_ahead(self) -> Tensor:
        """Which stretches are ahead, `(C, stretches)`."""
        stretches = ops.arange(self.end // self.stretch, dtype="int32")
        return stretches >= self._first_ahead[:, None]

    @property
    def _is_both(self) -> Tensor:
        """Which keys on diagonals are in such stretches, `(distances, C)`."""
        lowest, highest = self._diagonals
        first_keys = ops.arange(highest, lowest - 1, -1, dtype="int32")
        keys = first_keys[:, None] + ops.arange(self.length, dtype="int32")
        return keys >= self.stretch * self._first_ahead

    def _in_stretches(self, scores: Tensor) -> Tensor:
        sizes = ops.shape(scores)[:3]
        return ops.reshape(
            scores, (*sizes, self.end // self.stretch, self.stretch)
        )

    @staticmethod
    def _like(mask: Tensor, tensor: Tensor) -> Tensor:
        """Returns a constant of zeros and ones in the dtype of a tensor."""
        return ops.cast(mask, tensor.dtype)


def split_into_diagonal_blocks(
    length: int, block_length: int, max_relative_position: int, is_causal: bool
) -> list[DiagonalBlock]:
    """Splits the queries of a sequence into blocks.

    Args:
        length: int. Number `T` of tokens.
        block_length: int. Number of queries a block should have at least, if
            there are as many.
        max_relative_position: int. Clipping distance `K < T`.
        is_causal: see `DiagonalBlock`.

    Returns:
        List of blocks, in the order of their queries.
    """
    num_blocks = max(1, length // max(block_length, max_relative_position + 1))
    ends = [length * index // num_blocks for index in range(num_blocks + 1)]
    stretch = 0
    if not is_causal and length > max_relative_position + 1:
        # A stretch must not be longer than what diagonals can correct.
        stretch = max(
            size
            for size in range(1, 2 * max_relative_position + 1)
            if length % size == 0
        )
    return [
        DiagonalBlock(
            start,
            stop,
            stop if is_causal else length,
            max_relative_position,
            is_causal,
            stretch,
        )
        for start, stop in zip(ends, ends[1:])
    ]
