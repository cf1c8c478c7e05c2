"""A learned bias for each range of distances (Raffel et al. 2020)."""

import math

import keras
from keras import ops

from relative_attention.layers.positions.position_encoding import (
    PositionEncoding,
)
from relative_attention.ops.attention import clipped_relative_positions
from relative_attention.tensor_type import Tensor

_NUM_BUCKETS = 32
# From here on the logarithm would be above the last bucket; rounded down, it
# is there earlier.
_MAX_DISTANCE = 128


@keras.saving.register_keras_serializable(package="relative_attention")
class T5Bias(PositionEncoding):
    """Adds a learned number for each range of distances to the logits.

    This is T5's bias. Distances fall into 32 buckets: small distances have a
    bucket each, larger ones share buckets that widen logarithmically, and the
    last one has all from 91 tokens on, in a decoder from 113. In an encoder,
    half of the buckets are for earlier keys and half for later ones. In a
    decoder all are for earlier keys, and later ones have the bucket of the
    query itself. The layer has a table `relative_attention_bias` `(32, N)`;
    head `n` adds to the logit of query `i` and key `j`

        table[bucket(j - i), n]

    In T5 the layers of a stack share one table, and logits are not divided
    by `sqrt(H)`, which its initial values make up for. Here each layer has its
    own table, and logits are divided as with every other encoding. The table
    is initialized as in KerasHub's T5, normal with standard deviation
    `(N H)^-0.5`.

    Example:
    >>> layer = ra.SelfAttention(8, 64, ra.positions.T5Bias())

    Reference:
     - [Raffel et al., 2020](https://arxiv.org/abs/1910.10683), section 2.1
    """

    def build(self, layer: keras.layers.Layer, bidirectional: bool) -> None:
        """Adds `relative_attention_bias`."""
        width = layer.num_heads * layer.key_dim
        # No autocast: the gradients of all pairs of a bucket are summed, and
        # in half precision that sum would be badly off.
        layer.relative_attention_bias = layer.add_weight(
            name="relative_attention_bias",
            shape=(_NUM_BUCKETS, layer.num_heads),
            initializer=keras.initializers.RandomNormal(stddev=width**-0.5),
            autocast=False,
        )

    def logits(
        self,
        layer: keras.layers.Layer,
        query: Tensor,
        query_positions: Tensor,
        key_positions: Tensor,
    ) -> Tensor:
        """Computes the bias `(1, N, T, S)`."""
        relative_positions = clipped_relative_positions(
            query_positions, key_positions, _MAX_DISTANCE
        )
        buckets = ops.take(_buckets(layer.bidirectional), relative_positions)
        bias = ops.take(layer.relative_attention_bias, buckets, axis=0)
        bias = ops.transpose(bias, (2, 0, 1))  # (T, S, N) before
        bias = ops.expand_dims(bias, 0)
        return ops.cast(bias, query.dtype)


def _buckets(bidirectional: bool) -> Tensor:
    """Returns the bucket of each distance from -128 to 128.

    This is a table, because a logarithm computed on a device may fall on either
    side of a bound.
    """
    count = _NUM_BUCKETS // 2 if bidirectional else _NUM_BUCKETS
    num_exact = count // 2
    past = list(range(num_exact))
    for n in range(num_exact, _MAX_DISTANCE + 1):
        # From 0 at the last exact distance to 1 at the largest.
        share = math.log(n / num_exact, _MAX_DISTANCE / num_exact)
        bucket = num_exact + int(share * (count - num_exact))
        past.append(min(bucket, count - 1))
    future = [past[0]] * _MAX_DISTANCE
    if bidirectional:
        future = [count + bucket for bucket in past[1:]]
    return ops.convert_to_tensor(past[::-1] + future, "int32")
