"""A cache of keys and values whose size does not change, for XLA."""

from typing import Any
from typing import NamedTuple

from keras import ops

from relative_attention.layers.key_value_cache import KeyValueCache
from relative_attention.tensor_type import Tensor


class FixedKeyValueCache(NamedTuple):
    """Keys and values of `P` positions, of which the first are decoded.

    It stands in the place of a `KeyValueCache` where a compiled loop wants
    every tensor to keep its shape. Column `p * M + m` holds what beam `m` wrote
    at position `p`; what later positions hold counts for nothing.

    Attributes:
        key: float tensor `(B, N, P * M, H)`.
        value: float tensor `(B, N, P * M, H_v)`.
        length: int scalar, the number of positions decoded.
    """

    key: Tensor
    value: Tensor
    length: Tensor

    def extended(self, key: Tensor, value: Tensor) -> "FixedKeyValueCache":
        """Returns a cache with one more position decoded.

        Args:
            key: float tensor `(B, N, M, H)`, a column for each beam.
            value: float tensor `(B, N, M, H_v)`.
        """
        start = [0, 0, self.length * key.shape[2], 0]
        return FixedKeyValueCache(
            key=ops.slice_update(self.key, start, key),
            value=ops.slice_update(self.value, start, value),
            length=self.length + 1,
        )


def fixed_cache(cache: Any, num_columns: int) -> Any:
    """Returns the cache of a model with room for a number of columns.

    Args:
        cache: nested dicts and lists of tensors and empty `KeyValueCache`s,
            as `start_cache` returns them.
        num_columns: int, `P * M`: positions times beams.
    """
    if isinstance(cache, KeyValueCache):
        missing = ((0, 0), (0, 0), (0, num_columns), (0, 0))
        return FixedKeyValueCache(
            key=ops.pad(cache.key, missing),
            value=ops.pad(cache.value, missing),
            length=ops.zeros((), "int32"),
        )
    if isinstance(cache, dict):
        return {
            name: fixed_cache(part, num_columns) for name, part in cache.items()
        }
    if isinstance(cache, list):
        return [fixed_cache(part, num_columns) for part in cache]
    return cache
