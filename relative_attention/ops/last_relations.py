"""Relation logits and context vectors of the last query of a sequence.

Where logits and values are taken relative to the farthest distance, only the
last `K` positions have relations: what a step of decoding spends on them does
not grow with what has been decoded.
"""

from keras import ops

from relative_attention.ops.step_attention import step_product
from relative_attention.ops.table_product import table_product
from relative_attention.tensor_type import Tensor


def last_relation_logits(
    query: Tensor,
    relations: Tensor,
    position: int | Tensor,
    num_positions: int | None = None,
) -> Tensor:
    """Computes what relations add to the logits, eq. 5.

    Args:
        query: float tensor `(B, M, N, H)`: `M` queries at `position`, scaled.
        relations: float tensor `(K, H)` or `(N, K, H)`: edges to the last
            `K` positions, `position` the last of them.
        position: int scalar, absolute, 0 first.
        num_positions: int `P`, where there are columns for positions after
            `position`, too. Defaults to `None`: there are none.

    Returns:
        Float tensor `(B, M, N, position + 1)` or `(B, M, N, P)`, zero for
        earlier positions and for later ones.
    """
    logits = _product(query, ops.swapaxes(relations, -1, -2))
    if num_positions is not None:
        # Column `position` is the last of the `K`; those before it and after
        # it are zeros, as far as there may be any.
        zeros = ((0, 0), (0, 0), (0, 0), (num_positions, num_positions))
        first = num_positions + relations.shape[-2] - 1 - position
        return ops.slice(
            ops.pad(logits, zeros),
            [0, 0, 0, first],
            (*logits.shape[:3], num_positions),
        )
    # Some of the last `K` may lie before the first position.
    before = ((0, 0), (0, 0), (0, 0), (position + 1, 0))
    return ops.pad(logits, before)[..., relations.shape[-2] :]


def last_relation_context(
    scores: Tensor,
    relations: Tensor,
    position: int | Tensor,
    num_positions: int | None = None,
) -> Tensor:
    """Computes what relations add to the context vectors, eq. 3.

    Args:
        scores: float tensor `(B, M, N, position + 1)`, or `(B, M, N, P)`.
        relations: float tensor `(K, H_v)` or `(N, K, H_v)`.
        position: int scalar, absolute, 0 first.
        num_positions: int `P`, or `None`; see `last_relation_logits`.

    Returns:
        Float tensor `(B, M, N, H_v)`.
    """
    num_relations = relations.shape[-2]
    before = ((0, 0), (0, 0), (0, 0), (num_relations, 0))
    padded = ops.pad(scores, before)
    if num_positions is None:
        last = padded[..., position + 1 :]
    else:
        shape = (*scores.shape[:3], num_relations)
        last = ops.slice(padded, [0, 0, 0, position + 1], shape)
    return _product(last, relations)


def _product(vectors: Tensor, table: Tensor) -> Tensor:
    if len(table.shape) == 3:
        # A table for each head.
        return step_product(vectors, table[None])
    return table_product(vectors, table)
