"""One block of the Transformer's encoder."""

from collections.abc import Callable
from typing import Any

import keras

from relative_attention.layers.argument_types import Shape
from relative_attention.layers.attention_output_spec import (
    attention_output_spec,
)
from relative_attention.layers.layer_parts import AttentionParts
from relative_attention.layers.layer_parts import self_attention_parts
from relative_attention.layers.transformer_block import TransformerBlock
from relative_attention.layers.transformer_block import check_layers
from relative_attention.layers.width_spec import known_width
from relative_attention.layers.width_spec import width_spec
from relative_attention.tensor_type import Tensor


@keras.saving.register_keras_serializable(package="relative_attention")
class TransformerEncoderBlock(TransformerBlock):
    """Self-attention, then a feed-forward layer, each in a residual.

    Args:
        self_attention: `RelativeSelfAttention`.
        feed_forward: `FeedForward`.
        **kwargs: arguments of `TransformerBlock`.

    Call arguments:
        inputs: float tensor `(B, T, D)`.
        attention_mask: bool tensor, or int tensor of zeros and ones, broadcast
            to `(B, T, T)`, or with an axis of heads to `(B, N, T, T)`. `True`
            and `1` = may attend.
        return_attention_scores: bool. Also return the scores. Defaults to
            `False`.
        training: bool. Whether dropout is active.

    Returns:
        Float tensor `(B, T, D)`, or the pair of it and scores `(B, N, T, T)`.

    Reference:
     - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), section 3.1
    """

    def __init__(
        self,
        self_attention: keras.layers.Layer,
        feed_forward: keras.layers.Layer,
        **kwargs: Any,
    ) -> None:
        check_layers(self_attention=self_attention, feed_forward=feed_forward)
        super().__init__(**kwargs)
        self.self_attention = self_attention
        self.feed_forward = feed_forward

    def build(self, inputs_shape: Shape) -> None:
        self.input_spec = width_spec(inputs_shape, ndim=3)
        hidden_dim = known_width(inputs_shape)
        if not self.self_attention.built:
            self.self_attention.build(inputs_shape)
        self.self_attention_norm = self._layer_norm(
            "self_attention_norm", hidden_dim
        )
        if not self.feed_forward.built:
            self.feed_forward.build(inputs_shape)
        self.feed_forward_norm = self._layer_norm(
            "feed_forward_norm", hidden_dim
        )

    def call(
        self,
        inputs: Tensor,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        scores = None

        def attend(x: Tensor) -> Tensor:
            nonlocal scores
            outputs = self.self_attention(
                x,
                attention_mask=attention_mask,
                return_attention_scores=return_attention_scores,
                training=training,
            )
            if return_attention_scores:
                outputs, scores = outputs
            return outputs

        outputs = self._sublayers(inputs, attend, training=training)
        return (outputs, scores) if return_attention_scores else outputs

    def _sublayers(
        self,
        inputs: Tensor,
        attend: Callable[[Tensor], Tensor],
        training: bool | None = None,
    ) -> Tensor:
        """Computes the two sublayers, each in its residual connection."""
        hidden = self._residual(
            inputs, self.self_attention_norm, attend, training=training
        )
        return self._residual(
            hidden,
            self.feed_forward_norm,
            lambda x: self.feed_forward(x, training=training),
            training=training,
        )

    def attention_parts(
        self, inputs: Tensor, attention_mask: Tensor | None = None
    ) -> tuple[Tensor, AttentionParts]:
        """Computes the outputs, and attention with its terms kept apart.

        Args:
            inputs: float tensor `(B, T, D)`.
            attention_mask: as of a call.

        Returns:
            Pair of outputs `(B, T, D)` and `AttentionParts`.
        """
        kept = []

        def attend(x: Tensor) -> Tensor:
            outputs, parts = self_attention_parts(
                self.self_attention, x, attention_mask=attention_mask
            )
            kept.append(parts)
            return outputs

        return self._sublayers(inputs, attend), kept[0]

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return inputs_shape

    def compute_output_spec(
        self,
        inputs: Tensor,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> keras.KerasTensor | tuple[keras.KerasTensor, ...]:
        b, t, _ = inputs.shape
        return attention_output_spec(
            inputs.shape,
            self.compute_dtype,
            [(b, self.self_attention.num_heads, t, t)],
            return_attention_scores,
        )

    def get_config(self) -> dict[str, Any]:
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "self_attention": serialize(self.self_attention),
            "feed_forward": serialize(self.feed_forward),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "TransformerEncoderBlock":
        deserialize = keras.saving.deserialize_keras_object
        layers = {
            name: deserialize(config[name])
            for name in ("self_attention", "feed_forward")
        }
        return cls(**{**config, **layers})
