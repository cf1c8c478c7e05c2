"""Which keys each query may attend to, made only where it is asked for."""

from keras import ops

from relative_attention.ops.masks import causal_mask


class AttentionMask:
    """Padding, a mask of one's own and causality, merged part by part.

    A mask of all queries and keys has as many elements as one head's scores;
    attention that works in blocks never needs it whole.

    Args:
        length: int, or int scalar tensor. Number `T` of queries and keys.
        padding_mask: bool tensor `(B, T)`. `True` = real token.
        attention_mask: bool tensor, broadcast to `(B, T, T)`, or with an
            axis of heads to `(B, N, T, T)`. `True` = may attend.
        is_causal: bool. Whether a query attends only to its own and earlier
            positions.
    """

    def __init__(
        self, length, padding_mask=None, attention_mask=None, is_causal=False
    ):
        self.length = length
        self.is_causal = is_causal
        self._masks = []
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
                    (*ops.shape(attention_mask)[:2], length, length),
                )
            self._masks.append(attention_mask)
        if padding_mask is not None:
            self._masks.append(ops.cast(padding_mask, "bool")[:, None, None, :])

    def part(self, first_query, end_query, first_key, end_key):
        """The mask of some queries and keys.

        Args:
            first_query, end_query, first_key, end_key: int, or int scalar
                tensors. Positions; the ends are excluded.

        Returns:
            Bool tensor, broadcast to `(B, N, queries, keys)`, or `None` where
            all may attend to all.
        """
        rows, columns = (first_query, end_query), (first_key, end_key)
        parts = [
            self._cut(self._cut(mask, 2, *rows), 3, *columns)
            for mask in self._masks
        ]
        is_past = isinstance(end_key, int) and end_key <= first_query + 1
        if self.is_causal and not is_past:
            queries = ops.arange(*rows, dtype="int32")
            keys = ops.arange(*columns, dtype="int32")
            parts.append(causal_mask(queries, keys)[None, None])
        merged = None
        for part in parts:
            merged = part if merged is None else ops.logical_and(merged, part)
        return merged

    def whole(self):
        """The mask of all queries and keys, see `part`."""
        return self.part(0, self.length, 0, self.length)

    def _cut(self, mask, axis, start, stop):
        """`mask[start:stop]` on an axis, unless it is broadcast there."""
        if mask.shape[axis] == 1 or stop is self.length and not start:
            return mask
        index = [slice(None)] * 4
        index[axis] = slice(start, stop)
        return mask[tuple(index)]
