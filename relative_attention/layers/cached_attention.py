"""Relative attention from the newest position to those in a cache.

Decoding computes one position at a time. Its queries are the newest tokens of
`M` beams, its keys and values those of all positions so far. A causal query
has no future, so only the rows of distances `-K` to `0` of a relation table
are needed.
"""

from keras import ops

from relative_attention.layers.fixed_key_value_cache import FixedKeyValueCache
from relative_attention.layers.key_value_cache import KeyValueCache
from relative_attention.ops.last_relations import last_relation_context
from relative_attention.ops.last_relations import last_relation_logits
from relative_attention.ops.step_attention import step_product
from relative_attention.ops.step_attention import step_scores
from relative_attention.tensor_type import Tensor


def cached_attention(
    query: Tensor,
    cache: KeyValueCache | FixedKeyValueCache,
    position: int | Tensor,
    ancestors: Tensor | None = None,
    key_embeddings: Tensor | None = None,
    value_embeddings: Tensor | None = None,
) -> Tensor:
    """Computes the context vectors of one position of every beam.

    Args:
        query: float tensor `(B, M, N, H)`, scaled: the query at `position`
            of each of the `M` beams of a sentence.
        cache: `KeyValueCache` or `FixedKeyValueCache`, `position` included.
        position: int scalar, absolute, 0 first.
        ancestors: int tensor `(B, M, position + 1)`, or `(B, M, P)` with a
            cache of `P` positions. `ancestors[b, m, p]` is the beam that wrote
            position `p` of beam `m`'s history. `None` when every beam wrote
            its own.
        key_embeddings: float tensor `(2K + 1, H)` or `(N, 2K + 1, H)`, the
            relation table of the keys. `None` when keys have no relations.
        value_embeddings: float tensor `(2K + 1, H_v)` or `(N, 2K + 1, H_v)`,
            the relation table of the values, or `None`.

    Returns:
        Float tensor `(B, M, N, H_v)`.
    """
    num_beams = query.shape[1]
    # `P` of a cache that has room for later positions, else `None`.
    num_fixed = None
    num_positions = position + 1
    if isinstance(cache, FixedKeyValueCache):
        num_positions = num_fixed = cache.key.shape[2] // num_beams
    # Eq. 5, the first term: x_i W^Q (x_j W^K)^T.
    logits = _content_logits(query, cache)  # (B, M, N, (position + 1) * M)
    # With K = 0 the second term, x_i W^Q (a_ij^K)^T, is the same for all j,
    # and softmax ignores what is added to all logits alike.
    if key_embeddings is not None and _max_distance(key_embeddings):
        _, rows = _past_relations(key_embeddings, query.dtype)
        relations = last_relation_logits(query, rows, position, num_fixed)
        # The distance is the same whichever beam wrote the position.
        if num_beams > 1:
            relations = ops.repeat(relations, num_beams, axis=-1)
        logits = logits + relations
    mask = _history_mask(ancestors, num_beams, num_positions)
    if num_fixed is not None:
        mask = _without_later(mask, num_beams, num_fixed, position)
    scores = step_scores(logits, mask)
    # Eq. 3, the first term: sum_j alpha_ij x_j W^V.
    context = _content_context(scores, cache)
    if value_embeddings is None:
        return context
    # Eq. 3, the second term: sum_j alpha_ij a_ij^V. Scores of a query sum to
    # one, so the farthest row may be added once in place of to every j.
    farthest, rows = _past_relations(value_embeddings, query.dtype)
    context = context + farthest
    if _max_distance(value_embeddings):
        scores = _sum_over_beams(scores, num_beams, num_positions)
        context = context + last_relation_context(
            scores, rows, position, num_fixed
        )
    return context


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


def _max_distance(embeddings: Tensor) -> int:
    """Returns the clipping distance `K` of a table of `2K + 1` rows."""
    return embeddings.shape[-2] // 2


def _past_relations(embeddings: Tensor, dtype: str) -> tuple[Tensor, Tensor]:
    """Splits the rows for the past into the farthest and the differences.

    All positions at distance `K` and more share one row. With it taken from
    every row, these positions have nothing to add, and what is left to
    compute for the last `K` does not grow with the length: see
    `cached_attention` for why neither softmax nor context changes.

    Returns:
        Pair of the row of distance `-K`, `(H,)`, and of the rows of distances
        `1 - K` to `0` less that one, `(K, H)`; with an axis `N` before these
        when heads do not share a table.
    """
    rows = ops.cast(embeddings, dtype)
    rows = rows[..., : _max_distance(embeddings) + 1, :]
    farthest = rows[..., :1, :]
    return farthest[..., 0, :], rows[..., 1:, :] - farthest


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
