"""The interface between a self-attention layer and its position encoding."""

from typing import Any
from typing import Self

import keras
from keras import ops

from relative_attention.tensor_type import Tensor


@keras.saving.register_keras_serializable(package="relative_attention")
class PositionEncoding:
    """The base class of position encodings; by itself it adds nothing.

    A subclass overrides what it needs. `rotate` changes queries and keys,
    `logits` is added before the softmax, and `context` after it. All take
    positions, not lengths, so a pass over a sequence and one step of decoding
    share them. `build` adds weights to the layer, so one object can serve
    several layers.

    Attributes:
        config_fields: names of the fields of `TransformerConfig` that the
            encoding uses.
    """

    config_fields: tuple[str, ...] = ()

    @classmethod
    def from_transformer(cls, config: Any) -> Self:
        """Returns the encoding of the layers of a `Transformer`."""
        return cls(
            **{name: getattr(config, name) for name in cls.config_fields}
        )

    def check(self, key_dim: int) -> None:
        """Raises `ValueError` for a size of heads that does not fit.

        Args:
            key_dim: int. Size `H` of each head.
        """

    def build(self, layer: keras.layers.Layer, bidirectional: bool) -> None:
        """Adds weights to a layer.

        Before a model is loaded from a file, this is called with an object
        that has only `num_heads`, `key_dim`, `value_dim` and `add_weight`, to
        compare the shapes of weights.

        Args:
            layer: `SelfAttention`.
            bidirectional: A boolean to indicate whether the layer belongs to
                an encoder, whose queries see later keys.
        """

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Changes queries and keys by their positions.

        Args:
            x: float tensor `(B, N, T, H)`; in decoding also `(B, M, N, H)`.
            positions: int tensor that broadcasts to its shape without `H`.

        Returns:
            Float tensor of the same shape.
        """
        return x

    def logits(
        self,
        layer: keras.layers.Layer,
        query: Tensor,
        query_positions: Tensor,
        key_positions: Tensor,
    ) -> Tensor | None:
        """Computes what positions add to the logits.

        Args:
            layer: the built layer.
            query: float tensor `(B, N, T, H)`, scaled and rotated.
            query_positions: int tensor `(T,)`.
            key_positions: int tensor `(S,)`; the same object as
                `query_positions` for a sequence from its beginning.

        Returns:
            Float tensor `(B, N, T, S)` or `(1, N, T, S)`, or `None`.
        """
        return None

    def context(
        self,
        layer: keras.layers.Layer,
        scores: Tensor,
        query_positions: Tensor,
        key_positions: Tensor,
    ) -> Tensor | None:
        """Computes what positions add to the context vectors.

        Args:
            layer: the built layer.
            scores: float tensor `(B, N, T, S)`, after dropout.
            query_positions: int tensor `(T,)`.
            key_positions: int tensor `(S,)`, see `logits`.

        Returns:
            Float tensor `(B, N, T, H_v)`, or `None`.
        """
        return None

    def distance_tables(
        self, layer: keras.layers.Layer
    ) -> tuple[Tensor | None, Tensor | None] | None:
        """Returns the tables for `ops.relative_attention`.

        This is the fast method, used if no scores are returned.

        Args:
            layer: the built layer.

        Returns:
            Pair of tables `(2K + 1, H)` or `(N, 2K + 1, H)` of keys and of
            values, each `None` if nothing is added. `None` instead of the pair
            if positions add something else: then attention is computed by
            `logits` and `context`. This is the default for subclasses that
            override one of the two.
        """
        own, base = type(self), PositionEncoding
        if own.logits is base.logits and own.context is base.context:
            return None, None
        return None

    def step_logits(
        self,
        layer: keras.layers.Layer,
        query: Tensor,
        position: int | Tensor,
        num_positions: int | Tensor,
    ) -> Tensor | None:
        """Computes `logits` of one step of decoding.

        Args:
            layer: the built layer.
            query: float tensor `(B, M, N, H)`, of `M` beams at one position.
            position: int scalar, absolute, 0 first.
            num_positions: int scalar. Number `P` of positions in the cache.
                Those after `position` are masked.

        Returns:
            Float tensor `(B, M, N, P)` or `(1, M, N, P)`, or `None`.
        """
        logits = self.logits(
            layer,
            ops.swapaxes(query, 1, 2),
            _repeated(position, query.shape[1]),
            ops.arange(num_positions, dtype="int32"),
        )
        return None if logits is None else ops.swapaxes(logits, 1, 2)

    def step_context(
        self,
        layer: keras.layers.Layer,
        scores: Tensor,
        position: int | Tensor,
        num_positions: int | Tensor,
    ) -> Tensor | None:
        """Computes `context` of one step of decoding.

        Args:
            layer: the built layer.
            scores: float tensor `(B, M, N, P)`, 0 after `position`.
            position, num_positions: see `step_logits`.

        Returns:
            Float tensor `(B, M, N, H_v)`, or `None`.
        """
        context = self.context(
            layer,
            ops.swapaxes(scores, 1, 2),
            _repeated(position, scores.shape[1]),
            ops.arange(num_positions, dtype="int32"),
        )
        return None if context is None else ops.swapaxes(context, 1, 2)

    def get_config(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        return cls(**config)


def _repeated(position: int | Tensor, count: int) -> Tensor:
    return ops.broadcast_to(ops.cast(position, "int32"), (count,))
