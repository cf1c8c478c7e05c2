"""Keys and values of decoded positions, and attention to them.

Decoding computes one position at a time. Queries are the newest tokens of `M`
beams; keys and values are those of all positions so far. What positions add
does not depend on which beam wrote them.

A cache has a column for each position and beam: column `p * M + m` holds what
beam `m` wrote at position `p`. Columns are never reordered when beams change:
`ancestors` says which of them belong to a beam's history.

Every backend treats a named tuple as a nested structure of tensors, so a cache
can pass through loops, and its rows can be selected.
"""

from typing import Any
from typing import NamedTuple

import keras
from keras import ops

from relative_attention.ops.backend import start_indices
from relative_attention.ops.step_attention import step_product
from relative_attention.ops.step_attention import step_scores
from relative_attention.tensor_type import Tensor


class KeyValueCache(NamedTuple):
    """Keys and values of every position decoded so far, of all beams.

    The cache has two parts. Every step copies the recent columns to append its
    own, so there should be few recent columns. `merged` moves them to the other
    part, which copies all columns. If `merged` is called every 32 steps or so,
    both kinds of copies cost little.

    Attributes:
        key: float tensor `(B, N, p * M, H)`.
        value: float tensor `(B, N, p * M, H_v)`.
        recent_key: float tensor `(B, N, r * M, H)`, the keys of the `r`
            positions since the cache was merged.
        recent_value: float tensor `(B, N, r * M, H_v)`.
    """

    key: Tensor
    value: Tensor
    recent_key: Tensor
    recent_value: Tensor

    def extended(self, key: Tensor, value: Tensor) -> "KeyValueCache":
        """Appends a position: `(B, N, M, H)`, a column for each beam."""
        return self._replace(
            recent_key=ops.concatenate([self.recent_key, key], axis=2),
            recent_value=ops.concatenate([self.recent_value, value], axis=2),
        )

    def merged(self) -> "KeyValueCache":
        """Returns the same cache with no column among the recent ones."""
        return KeyValueCache(
            key=ops.concatenate([self.key, self.recent_key], axis=2),
            value=ops.concatenate([self.value, self.recent_value], axis=2),
            recent_key=self.recent_key[:, :, :0],
            recent_value=self.recent_value[:, :, :0],
        )

    def logits(self, query: Tensor) -> Tensor:
        """Multiplies queries `(B, M, N, H)` by the keys of all columns."""
        keys = (self.key, self.recent_key)
        return ops.concatenate(
            [step_product(query, key, transpose=True) for key in keys], axis=-1
        )

    def context(self, scores: Tensor) -> Tensor:
        """Sums the values of all columns by scores `(B, M, N, columns)`."""
        num_merged = ops.shape(self.key)[2]
        context = step_product(scores[..., :num_merged], self.value)
        recent = step_product(scores[..., num_merged:], self.recent_value)
        return context + recent


class FixedKeyValueCache(NamedTuple):
    """Keys and values of `P` positions, of which the first are decoded.

    It replaces a `KeyValueCache` if XLA compiles the loop, where every tensor
    must keep its shape. Columns of later positions hold zeros and are masked.

    Attributes:
        key: float tensor `(B, N, P * M, H)`.
        value: float tensor `(B, N, P * M, H_v)`.
        length: int scalar, the number of positions decoded.
    """

    key: Tensor
    value: Tensor
    length: Tensor

    def extended(self, key: Tensor, value: Tensor) -> "FixedKeyValueCache":
        """Writes a position: `(B, N, M, H)`, a column for each beam."""
        start = start_indices(0, 0, self.length * key.shape[2], 0)
        return FixedKeyValueCache(
            key=ops.slice_update(self.key, start, key),
            value=ops.slice_update(self.value, start, value),
            length=self.length + 1,
        )

    def logits(self, query: Tensor) -> Tensor:
        """Multiplies queries `(B, M, N, H)` by the keys of all columns."""
        return step_product(query, self.key, transpose=True)

    def context(self, scores: Tensor) -> Tensor:
        """Sums the values of all columns by scores `(B, M, N, columns)`."""
        return step_product(scores, self.value)


def merged_cache(cache: Any) -> Any:
    """Returns the cache of a model with every `KeyValueCache` in it merged.

    Args:
        cache: nested dicts and lists of tensors and `KeyValueCache`s, as
            `start_cache` and `decode_step` return them.
    """

    def merged(part: Any) -> KeyValueCache | None:
        # `None`: visit its parts, or keep a tensor unchanged.
        return part.merged() if isinstance(part, KeyValueCache) else None

    return keras.tree.traverse(merged, cache)


def fixed_cache(cache: Any, num_columns: int) -> Any:
    """Returns the cache of a model with room for a number of columns.

    Args:
        cache: nested dicts and lists of tensors and empty `KeyValueCache`s,
            as `start_cache` returns them.
        num_columns: int, `P * M`: positions times beams.
    """
    missing = ((0, 0), (0, 0), (0, num_columns), (0, 0))

    def fixed(part: Any) -> FixedKeyValueCache | None:
        if not isinstance(part, KeyValueCache):
            return None  # Visit its parts, or keep a tensor unchanged.
        return FixedKeyValueCache(
            key=ops.pad(part.key, missing),
            value=ops.pad(part.value, missing),
            length=ops.zeros((), "int32"),
        )

    return keras.tree.traverse(fixed, cache)


def cached_attention(
    layer: keras.layers.Layer,
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
            position `p` of beam `m`'s history. `None`: every beam wrote its
            own.

    Returns:
        Float tensor `(B, M, N, H_v)`.
    """
    num_beams = query.shape[1]
    num_positions = position + 1
    is_fixed = isinstance(cache, FixedKeyValueCache)
    if is_fixed:
        num_positions = cache.key.shape[2] // num_beams
    mask = _history_mask(ancestors, num_beams, num_positions)
    if is_fixed:
        is_written = ops.arange(num_positions, dtype="int32") <= position
        is_written = ops.repeat(is_written, num_beams)[None, None, None]
        mask = is_written if mask is None else mask & is_written
    encoding = layer.position_encoding
    logits = cache.logits(query)  # (B, M, N, num_positions * M)
    by_position = encoding.step_logits(layer, query, position, num_positions)
    if by_position is not None:
        # The same for all beams that wrote a position.
        if num_beams > 1:
            by_position = ops.repeat(by_position, num_beams, axis=-1)
        logits = logits + ops.cast(by_position, logits.dtype)
    scores = step_scores(logits, mask)
    context = cache.context(scores)
    of_positions = encoding.step_context(
        layer,
        _sum_over_beams(scores, num_beams, num_positions),
        position,
        num_positions,
    )
    return context if of_positions is None else context + of_positions


def _history_mask(
    ancestors: Tensor | None, num_beams: int, num_positions: int | Tensor
) -> Tensor | None:
    """Tells which columns of the cache belong to each beam's history.

    For example, with two beams and three positions, where beam 1 wrote the
    first position of both histories, `ancestors[b]` is `[[1, 0, 0], [1, 1,
    1]]`. The mask, with a pair of columns per position, is

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


def _sum_over_beams(
    scores: Tensor, num_beams: int, num_positions: int | Tensor
) -> Tensor:
    """Sums scores by position: `(B, M, N, num_positions)`.

    A history has one of the `M` columns of a position; the others are zero.
    """
    if num_beams == 1:
        return scores
    return ops.sum(
        ops.reshape(scores, (-1, *scores.shape[1:3], num_positions, num_beams)),
        axis=-1,
    )
