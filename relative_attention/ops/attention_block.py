"""The geometry of a block of queries and of the keys that it attends to.

With `K = 1`, a block of the queries 4 to 7 of twelve tokens has

    key      0  1  2  3  4  5  6  7  8  9 10 11
    query                q  q  q  q
    region   l  l  l  n  n  n  n  n  n  r  r  r

to its `left` the keys that are farther back than `K` from each of its queries,
`near` it those at most `K` from at least one, and to its `right` those that
are farther ahead than `K` from each. With a causal mask no key after the last
query counts. What is computed of them is told in `block_attention.py`.
"""

import dataclasses
from typing import Literal
from typing import NamedTuple
from typing import TypeAlias

from relative_attention.ops.relative_shift import relative_shift
from relative_attention.ops.relative_shift import transposed_relative_shift
from relative_attention.tensor_type import Tensor

Side: TypeAlias = Literal["near", "left", "right"]


class Region(NamedTuple):
    """Keys `start` to `stop` of a block, `stop` excluded."""

    side: Side
    start: int
    stop: int | Tensor


@dataclasses.dataclass(frozen=True)
class Block:
    """Queries `start` to `stop` and the keys around them.

    Where the length of the sequence is not known when the graph is built,
    there is a single block, and its ends are int scalar tensors.

    Attributes:
        start: int. The first query.
        stop: int. The end of the queries.
        near_start: int. The first key that is near.
        near_stop: int. The end of the keys that are near.
        end: int. The end of the keys that a query of the block may attend to.
        max_relative_position: int. Clipping distance `K`; rows of tables for
            distances that no pair of tokens has are cut off, so it is less
            than the length where that is known.
        is_causal: A boolean to indicate whether queries attend only to their
            own and earlier positions.
    """

    start: int
    stop: int | Tensor
    near_start: int
    near_stop: int | Tensor
    end: int | Tensor
    max_relative_position: int
    is_causal: bool

    @property
    def length(self) -> int | Tensor:
        """The number of queries, `C`."""
        return self.stop - self.start

    @property
    def has_known_length(self) -> bool:
        """Whether the length of the sequence was known beforehand."""
        return isinstance(self.end, int)

    @property
    def has_right(self) -> bool:
        """Whether there are keys to the right of those that are near."""
        # A sequence of unknown length is one block, all of whose keys are near.
        return self.has_known_length and self.near_stop < self.end

    def regions(self) -> list[Region]:
        """Returns the regions of keys: near always, left and right if any."""
        regions = [Region("near", self.near_start, self.near_stop)]
        if self.near_start > 0:
            regions.append(Region("left", 0, self.near_start))
        if self.has_right:
            regions.append(Region("right", self.near_stop, self.end))
        return regions

    def queries(self, tensor: Tensor) -> Tensor:
        """Returns the block's rows of a tensor `(B, N, T, H)`."""
        if not self.has_known_length:
            # The only block has all of them.
            return tensor
        return tensor[:, :, self.start : self.stop]

    def to_keys(self, by_distance: Tensor) -> Tensor:
        """Moves columns of distances `(B, N, C, 2K + 1)` to the keys near."""
        return relative_shift(by_distance, self._margins(), not self.is_causal)

    def to_distances(self, by_key: Tensor) -> Tensor:
        """Sums columns of the keys near by distance: `to_keys` transposed."""
        return transposed_relative_shift(
            by_key,
            2 * self.max_relative_position + 1,
            self._margins(),
            not self.is_causal,
        )

    def _margins(self) -> tuple[int, int]:
        """Returns how many keys of the band are not among those near.

        The band goes from `K` before the first query to `K` after the last.
        """
        first = self.start - self.max_relative_position
        num_before = self.near_start - first
        if not self.has_known_length:
            # All keys are near, and the last query is the last key.
            return num_before, self.max_relative_position
        end = self.stop + self.max_relative_position
        return num_before, end - self.near_stop


def split_into_blocks(
    length: int | Tensor,
    block_length: int | None,
    max_relative_position: int,
    has_relations: bool,
    is_causal: bool,
) -> list[Block]:
    """Splits the queries of a sequence into blocks.

    Args:
        length: int, or int scalar tensor. Number `T` of tokens.
        block_length: int. Number of queries a block, or `None` for a single
            block, as it must be where the length is a tensor.
        max_relative_position: int. Clipping distance `K`.
        has_relations: A boolean to indicate whether keys or values have
            relations; without, all keys count as near.
        is_causal: see `Block`.

    Returns:
        List of blocks, in the order of their queries.
    """
    if block_length is None or (
        isinstance(length, int) and block_length >= length
    ):
        # All keys are near: there are none to the left or to the right.
        near = (0, length)
        return [
            Block(0, length, *near, length, max_relative_position, is_causal)
        ]
    blocks = []
    for start in range(0, length, block_length):
        stop = min(start + block_length, length)
        end = stop if is_causal else length
        near = (0, end)
        if has_relations:
            near = (
                max(0, start - max_relative_position),
                min(end, stop + max_relative_position),
            )
        blocks.append(
            Block(start, stop, *near, end, max_relative_position, is_causal)
        )
    return blocks
