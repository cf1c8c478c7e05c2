"""Attention from the newest position to those in a cache.

Decoding computes one position at a time. Its queries are the newest tokens of
`M` beams, its keys and values those of all positions so far. What positions add
does not depend on which beam wrote them.
"""

from typing import TYPE_CHECKING

from keras import ops

from relative_attention.layers.fixed_key_value_cache import FixedKeyValueCache
from relative_attention.layers.key_value_cache import KeyValueCache
from relative_attention.ops.step_attention import step_product
from relative_attention.ops.step_attention import step_scores
from relative_attention.tensor_type import Tensor

if TYPE_CHECKING:
    from relative_attention.layers.self_attention import SelfAttention


def cached_attention(
    layer: "SelfAttention",
    query: Tensor,
    cache: KeyValueCache | FixedKeyValueCache,
    position: int | Tensor,
    ancestors: Tensor | None = None,
) -> Tensor:
    """Computes the context vectors of one position of every beam.

    Args:
        layer: `SelfAttention`, built.
        query: float tensor `(B, M, N, H)`, scaled and rotated: the query at
            `position` of each of the `M` beams of a sentence.
        cache: `KeyValueCache` or `FixedKeyValueCache`, `position` included.
        position: int scalar, absolute, 0 first.
        ancestors: int tensor `(B, M, position + 1)`, or `(B, M, P)` with a
            cache of `P` positions. `ancestors[b, m, p]` is the beam that wrote
            position `p` of beam `m`'s history. `None` when every beam wrote
            its own.

    Returns:
        Float tensor `(B, M, N, H_v)`.
    """
    num_beams = query.shape[1]
    # `P` of a cache that has room for later positions, else `None`.
    num_fixed = None
    num_positions = position + 1
    if isinstance(cache, FixedKeyValueCache):
        num_positions = num_fixed = cache.key.shape[2] // num_beams
    encoding = layer.position_encoding
    logits = _content_logits(query, cache)  # (B, M, N, positions * M)
    by_position = encoding.step_logits(layer, query, position, num_positions)
    if by_position is not None:
        # The same for each of the beams that wrote a position.
        if num_beams > 1:
            by_position = ops.repeat(by_position, num_beams, axis=-1)
        logits = logits + by_position
    mask = _history_mask(ancestors, num_beams, num_positions)
    if num_fixed is not None:
        mask = _without_later(mask, num_beams, num_fixed, position)
    scores = step_scores(logits, mask)
    context = _content_context(scores, cache)
    of_positions = encoding.step_context(
        layer,
        _sum_over_beams(scores, num_beams, num_positions),
        position,
        num_positions,
    )
    return context if of_positions is None else context + of_positions


def _content_logits(
    query: Tensor, cache: KeyValueCache | FixedKeyValueCache
) -> Tensor:
    """Computes the logits of all columns of the cache."""
    if isinstance(cache, FixedKeyValueCache):
        return step_product(query, cache.key, transpose=True)
    return ops.concatenate(
        [
            step_product(query, cache.key, transpose=True),
            step_product(query, cache.recent_key, transpose=True),
        ],
        axis=-1,
    )


def _content_context(
    scores: Tensor, cache: KeyValueCache | FixedKeyValueCache
) -> Tensor:
    """Computes the context vectors of all columns of the cache."""
    if isinstance(cache, FixedKeyValueCache):
        return step_product(scores, cache.value)
    num_merged = ops.shape(cache.key)[2]
    context = step_product(scores[..., :num_merged], cache.value)
    return context + step_product(scores[..., num_merged:], cache.recent_value)


def _sum_over_beams(
    scores: Tensor, num_beams: int, num_positions: int | Tensor
) -> Tensor:
    """Sums scores by position: `(B, M, N, num_positions)`.

    Of the `M` columns of a position, a history has one; the others are zero.
    """
    if num_beams == 1:
        return scores
    return ops.sum(
        ops.reshape(scores, (-1, *scores.shape[1:3], num_positions, num_beams)),
        axis=-1,
    )


def _history_mask(
    ancestors: Tensor | None, num_beams: int, num_positions: int | Tensor
) -> Tensor | None:
    """Tells which columns of the cache belong to each beam's history.

    For two beams and three positions, where beam 1 wrote the first position
    of both histories, `ancestors[b]` is `[[1, 0, 0], [1, 1, 1]]`, and the
    mask, its columns in pairs of a position, is

        beam 0   0 1   1 0   1 0
        beam 1   0 1   0 1   0 1

    Returns:
        Bool tensor `(B or 1, M, 1, num_positions * M)`, or `None` with one
        beam, to which every column belongs.
    """
    if num_beams == 1:
        return None
    beams = ops.arange(num_beams, dtype="int32")
    if ancestors is None:
        ancestors = ops.broadcast_to(
            beams[None, :, None], (1, num_beams, num_positions)
        )
    is_ancestor = ops.equal(ancestors[..., None], beams)
    batch_size = ops.shape(is_ancestor)[0]
    return ops.reshape(is_ancestor, (batch_size, num_beams, 1, -1))


def _without_later(
    mask: Tensor | None,
    num_beams: int,
    num_positions: int,
    position: int | Tensor,
) -> Tensor:
    """Takes the columns out of a mask that nothing was written to yet.

    Args:
        mask: bool tensor `(B or 1, M, 1, num_positions * M)`, or `None`.
        num_beams: int `M`.
        num_positions: int.
        position: int scalar, the last that was written.

    Returns:
        Bool tensor, that can be broadcast to `(B, M, 1, num_positions * M)`.
    """
    is_written = ops.arange(num_positions, dtype="int32") <= position
    is_written = ops.repeat(is_written, num_beams)[None, None, None]
    return is_written if mask is None else mask & is_written
