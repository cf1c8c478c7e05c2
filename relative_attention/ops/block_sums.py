"""The sums over blocks of what each adds to a gradient.

Blocks see different stretches of the keys. What only some see is joined to
what all see, so that nothing is padded to the whole length and added.
"""

from collections.abc import Sequence

from keras import ops

from relative_attention.ops.block_operands import Operands
from relative_attention.ops.block_operands import added
from relative_attention.ops.block_operands import joined
from relative_attention.tensor_type import Tensor


def sum_gradients(blocks: Sequence[Operands], like: Operands) -> Operands:
    """Sums the gradients of blocks.

    Args:
        blocks: what `block_gradients` returned, in the order of the queries.
        like: the operands whose gradients these are.

    Returns:
        The gradients of all operands that there are.
    """
    d_key_right = d_value_right = None
    if like.key_right is not None:
        length = like.key_right.shape[2]
        d_key_right = _sum_future(_given(blocks, "key_right"), length)
        d_value_right = _sum_future(_given(blocks, "value_right"), length)
    return Operands(
        query=joined([block.query for block in blocks]),
        key=sum_past([block.key for block in blocks]),
        value=sum_past([block.value for block in blocks]),
        key_relations=_sum_tables(blocks, "key_relations", like),
        value_relations=_sum_tables(blocks, "value_relations", like),
        key_right=d_key_right,
        value_right=d_value_right,
    )


def _given(blocks: Sequence[Operands], name: str) -> list[Tensor]:
    parts = [getattr(block, name) for block in blocks]
    return [part for part in parts if part is not None]


def _sum_tables(
    blocks: Sequence[Operands], name: str, like: Operands
) -> Tensor | None:
    table = getattr(like, name)
    if table is None:
        return None
    # Summed in float32 even where the table is cast to half precision.
    return ops.cast(added(_given(blocks, name)), table.dtype)


def sum_past(parts: Sequence[Tensor]) -> Tensor:
    """Sums gradients of the keys from the first on.

    The later the block the more keys it has seen: the parts grow.
    """
    total, finished = parts[-1], []
    for part in parts[-2::-1]:
        stop = part.shape[2]
        finished.append(total[:, :, stop:])
        total = total[:, :, :stop] + part
    return joined([total, *finished[::-1]])


def _sum_future(parts: Sequence[Tensor], length: int) -> Tensor:
    """Sums gradients of the keys up to the last of `length`.

    The later the block the fewer keys are to its right: the parts shrink.
    """
    total, finished = parts[0], []
    for part in parts[1:]:
        start = total.shape[2] - part.shape[2]
        finished.append(total[:, :, :start])
        total = total[:, :, start:] + part
    total = joined([*finished, total])
    # The first keys are to no block's right.
    before = length - total.shape[2]
    return ops.pad(total, ((0, 0), (0, 0), (before, 0), (0, 0)))
