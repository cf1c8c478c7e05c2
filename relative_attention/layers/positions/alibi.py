"""Attention with linear biases: far keys count less (Press et al. 2022)."""

import keras
from keras import ops

from relative_attention.layers.positions.position_encoding import (
    PositionEncoding,
)
from relative_attention.ops.backend import wide_dtype
from relative_attention.tensor_type import Tensor


@keras.saving.register_keras_serializable(package="relative_attention")
class ALiBi(PositionEncoding):
    """A penalty on logits that grows with the distance to the key.

    Head `n` of `N` adds to the logit of query `i` and key `j`

        -m_n |i - j|,    m_n = 2^(-8 n / N),    n = 1 .. N

    If `N` is not a power of two, heads have the slopes of the next lower power,
    and then every other slope of the next higher one, as in the paper's code.
    There are no weights.

    The paper only has a decoder, where all keys come before the query. In an
    encoder the penalty is the same on both sides. Without other positions it
    cannot tell the key before a query from the key after it, nor a sentence
    from its reverse.

    KerasHub's `AlibiBias` adds `m_n (j - (S - 1))`. For a query with no later
    keys this differs by the same number for all keys, which the softmax
    ignores. For an encoder it is a different function.

    Example:
    >>> layer = ra.SelfAttention(8, 64, ra.positions.ALiBi())

    Reference:
     - [Press et al., 2022](https://arxiv.org/abs/2108.12409), section 3
    """

    def logits(
        self,
        layer: keras.layers.Layer,
        query: Tensor,
        query_positions: Tensor,
        key_positions: Tensor,
    ) -> Tensor:
        """Computes the bias `(1, N, T, S)`."""
        # In half precision large distances are not exact.
        dtype = wide_dtype(query)
        distance = key_positions[None, :] - query_positions[:, None]
        distance = ops.cast(ops.abs(distance), dtype)  # (T, S)
        slopes = ops.convert_to_tensor(_slopes(layer.num_heads), dtype)
        bias = -slopes[None, :, None, None] * distance
        return ops.cast(bias, query.dtype)


def _slopes(num_heads: int) -> list[float]:
    """Returns the slope of each head, the steepest first."""
    # The largest power of two that is not above `N`.
    power = 1 << (num_heads.bit_length() - 1)
    slopes = [2 ** (-8 * n / power) for n in range(1, power + 1)]
    if power < num_heads:
        slopes += _slopes(2 * power)[::2][: num_heads - power]
    return slopes
