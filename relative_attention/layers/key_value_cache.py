"""The cache of keys and values that decoding extends position by position."""

from typing import NamedTuple

from keras import ops

from relative_attention.tensor_type import Tensor


class KeyValueCache(NamedTuple):
    """Keys and values of every position decoded so far, of all beams.

    On the third axis stands one column for each position and beam: column
    `p * M + m` holds what beam `m` wrote at position `p`. The columns are
    never reordered when beams change; the `ancestors` of `decode_step` say
    which of them belong to a beam's history.

    The cache has two parts. Every step copies the recent columns to append
    its own, so those must stay few; `merged` moves them to the others, which
    copies all. Done every 32 steps or so, both cost little.

    A named tuple is a nested structure of tensors to every backend, so a
    cache passes through loops, and its rows can be taken, as they are.

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

    @classmethod
    def empty(
        cls,
        batch_size: int | Tensor,
        num_heads: int,
        key_dim: int,
        value_dim: int,
        dtype: str,
    ) -> "KeyValueCache":
        """Returns the cache before the first position."""
        return cls(
            *(
                ops.zeros((batch_size, num_heads, 0, dim), dtype)
                for dim in (key_dim, value_dim, key_dim, value_dim)
            )
        )

    def extended(self, key: Tensor, value: Tensor) -> "KeyValueCache":
        """Returns a cache that is one position longer.

        Args:
            key: float tensor `(B, N, M, H)`, a column for each beam.
            value: float tensor `(B, N, M, H_v)`.
        """
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
