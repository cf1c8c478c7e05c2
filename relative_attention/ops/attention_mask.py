"""Padding, causal and custom masks as one mask, made only where needed."""

from collections.abc import Sequence

from keras import ops

from relative_attention.ops.masks import causal_mask
from relative_attention.ops.static_shape import sizes
from relative_attention.tensor_type import Tensor


class AttentionMask:
    """Merges padding, a mask of one's own and causality, part by part.

    A mask of all queries and keys has as many elements as one head's scores;
    attention that works in blocks never needs it whole.

    Args:
        length: int, or int scalar tensor. Number `T` of queries and keys.
        padding_mask: bool tensor `(B, T)`. `True` = real token.
        attention_mask: bool tensor, broadcast to `(B, T, T)`, or with an
            axis of heads to `(B, N, T, T)`. `True` = may attend.
        is_causal: A boolean to indicate whether a query attends only to its
            own and earlier positions. Defaults to `False`.
    """

    def __init__(
        self,
        length: int | Tensor,
        padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> None:
        self.length = length
        self.is_causal = is_causal
        # Bool tensors `(B or 1, N or 1, T or 1, T or 1)`.
        self._masks: list[Tensor] = []
        if attention_mask is not None:
            attention_mask = ops.cast(attention_mask, "bool")
            while len(attention_mask.shape) < 3:
                attention_mask = attention_mask[None]
            if len(attention_mask.shape) == 3:
                attention_mask = attention_mask[:, None]
            if None in attention_mask.shape[2:]:
                # An axis of unknown size may be one that is broadcast.
                attention_mask = ops.broadcast_to(
                    attention_mask,
                    (*sizes(attention_mask)[:2], length, length),
                )
            self._masks.append(attention_mask)
        if padding_mask is not None:
            self._masks.append(ops.cast(padding_mask, "bool")[:, None, None, :])

    def part(
        self,
        first_query: int | Tensor,
        end_query: int | Tensor,
        first_key: int | Tensor,
        end_key: int | Tensor,
    ) -> Tensor | None:
        """Returns the mask of some queries and keys.

        Args:
            first_query, end_query, first_key, end_key: int, or int scalar
                tensors. Positions; the ends are excluded.

        Returns:
            Bool tensor, broadcast to `(B, N, queries, keys)`, or `None` where
            all may attend to all.
        """
        parts = [
            self._cut(
                self._cut(mask, 2, first_query, end_query),
                3,
                first_key,
                end_key,
            )
            for mask in self._masks
        ]
        return self._merge(parts, first_query, end_query, first_key, end_key)

    def whole(self) -> Tensor | None:
        """Returns the mask of all queries and keys, see `part`."""
        return self._merge(self._masks, 0, self.length, 0, self.length)

    def _merge(
        self,
        parts: Sequence[Tensor],
        first_query: int | Tensor,
        end_query: int | Tensor,
        first_key: int | Tensor,
        end_key: int | Tensor,
    ) -> Tensor | None:
        """Returns where all the parts are `True`, and causality allows it."""
        parts = list(parts)
        # No key comes after the first query: causality hides nothing.
        is_past = isinstance(end_key, int) and end_key <= first_query + 1
        if self.is_causal and not is_past:
            queries = ops.arange(first_query, end_query, dtype="int32")
            keys = ops.arange(first_key, end_key, dtype="int32")
            parts.append(causal_mask(queries, keys)[None, None])
        merged = None
        for part in parts:
            merged = part if merged is None else ops.logical_and(merged, part)
        return merged

    def _cut(
        self,
        mask: Tensor,
        axis: int,
        start: int | Tensor,
        stop: int | Tensor,
    ) -> Tensor:
        """Returns `mask[start:stop]` on an axis, unless it is broadcast."""
        size = mask.shape[axis]
        is_known = isinstance(start, int) and isinstance(stop, int)
        if size == 1 or (is_known and start == 0 and stop == size):
            return mask
        index = [slice(None)] * 4
        index[axis] = slice(start, stop)
        return mask[tuple(index)]
