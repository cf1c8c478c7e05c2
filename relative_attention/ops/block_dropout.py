"""Dropout on the scores of blocks."""

from collections.abc import Sequence
from typing import NamedTuple
from typing import Protocol

from keras import ops

from relative_attention.ops.attention_block import Block
from relative_attention.ops.diagonal_block import DiagonalBlock
from relative_attention.ops.static_shape import sizes
from relative_attention.tensor_type import Tensor


class DropoutLayer(Protocol):
    """A layer that can say which elements dropout keeps.

    Attributes:
        rate: float. The share of the elements that are dropped.
    """

    rate: float

    def draw_keep_mask(self, shape: tuple[int | Tensor, ...]) -> Tensor:
        """Returns a bool tensor of a shape: `True` for what is kept."""


class KeepMasks(NamedTuple):
    """The scores of a block that dropout keeps.

    Attributes:
        masks: list of bool tensors `(B, N, C, keys)`, one for each region.
        scale: float. Factor `1 / (1 - rate)` of what is kept.
    """

    masks: list[Tensor]
    scale: float

    def drop(self, region: int, scores: Tensor) -> Tensor:
        """Drops scores of a region, given by number, and scales the rest.

        It is linear and its own transpose, so that gradients of the scores
        that were dropped become gradients of those before by it, too.
        """
        return ops.where(self.masks[region], scores * self.scale, 0.0)


def draw_keep_masks(
    dropout: DropoutLayer | None,
    blocks: Sequence[Block | DiagonalBlock],
    query: Tensor,
) -> list[KeepMasks | None]:
    """Draws what dropout keeps of each block.

    Args:
        dropout: the layer, or `None` for no dropout.
        blocks: blocks of queries.
        query: tensor `(B, N, T, H)`, for its sizes.

    Returns:
        List with the masks of each block, or `None`.
    """
    if dropout is None:
        return [None] * len(blocks)
    batch_size, num_heads = sizes(query)[:2]
    return [
        KeepMasks(
            [
                dropout.draw_keep_mask(
                    (
                        batch_size,
                        num_heads,
                        block.length,
                        region.stop - region.start,
                    )
                )
                for region in block.regions()
            ],
            scale=1 / (1 - dropout.rate),
        )
        for block in blocks
    ]
