"""One block of the Transformer's decoder."""

from collections.abc import Callable
from typing import Any

import keras

from relative_attention.layers.argument_types import Shape
from relative_attention.layers.attention_output_spec import (
    attention_output_spec,
)
from relative_attention.layers.layer_parts import AttentionParts
from relative_attention.layers.layer_parts import cross_attention_parts
from relative_attention.layers.layer_parts import self_attention_parts
from relative_attention.layers.transformer_block import TransformerBlock
from relative_attention.layers.transformer_block import check_layers
from relative_attention.layers.width_spec import known_width
from relative_attention.layers.width_spec import width_spec
from relative_attention.ops.backend import sizes
from relative_attention.ops.masks import check_padding_mask
from relative_attention.tensor_type import Tensor


@keras.saving.register_keras_serializable(package="relative_attention")
class TransformerDecoderBlock(TransformerBlock):
    """Causal self-attention, attention to the encoder, feed-forward layer.

    Each stands in a residual connection of its own.

    Masking: the Keras mask of `inputs` hides padded target positions and is
    passed on. That of `encoder_outputs` hides padded source positions, as
    `source_padding_mask` does; with both, a position must be real in both.

    Args:
        self_attention: `RelativeSelfAttention`.
        cross_attention: `CrossAttention`.
        feed_forward: `FeedForward`.
        **kwargs: arguments of `TransformerBlock`.

    Call arguments:
        inputs: float tensor `(B, T, D)`.
        encoder_outputs: float tensor `(B, S, D)`.
        source_padding_mask: bool tensor, or int tensor of zeros and ones,
            `(B, S)`. `True` and `1` = real token.
        return_attention_scores: bool. Also return the scores. Defaults to
            `False`.
        training: bool. Whether dropout is active.

    Returns:
        Float tensor `(B, T, D)`, or a triple of it, the scores of
        self-attention `(B, N, T, T)` and of cross-attention `(B, N, T, S)`.

    Reference:
     - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), section 3.1
    """

    def __init__(
        self,
        self_attention: keras.layers.Layer,
        cross_attention: keras.layers.Layer,
        feed_forward: keras.layers.Layer,
        **kwargs: Any,
    ) -> None:
        check_layers(
            self_attention=self_attention,
            cross_attention=cross_attention,
            feed_forward=feed_forward,
        )
        super().__init__(**kwargs)
        self.self_attention = self_attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward

    def build(self, inputs_shape: Shape, encoder_outputs_shape: Shape) -> None:
        self.input_spec = width_spec(inputs_shape, ndim=3)
        hidden_dim = known_width(inputs_shape)
        if not self.self_attention.built:
            self.self_attention.build(inputs_shape)
        self.self_attention_norm = self._layer_norm(
            "self_attention_norm", hidden_dim
        )
        if not self.cross_attention.built:
            self.cross_attention.build(inputs_shape, encoder_outputs_shape)
        self.cross_attention_norm = self._layer_norm(
            "cross_attention_norm", hidden_dim
        )
        if not self.feed_forward.built:
            self.feed_forward.build(inputs_shape)
        self.feed_forward_norm = self._layer_norm(
            "feed_forward_norm", hidden_dim
        )

    def call(
        self,
        inputs: Tensor,
        encoder_outputs: Tensor,
        source_padding_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Tensor | tuple[Tensor, Tensor, Tensor]:
        self._check_mask(encoder_outputs, source_padding_mask)
        self_scores = cross_scores = None

        def attend_self(x: Tensor) -> Tensor:
            nonlocal self_scores
            outputs = self.self_attention(
                x,
                use_causal_mask=True,
                return_attention_scores=return_attention_scores,
                training=training,
            )
            if return_attention_scores:
                outputs, self_scores = outputs
            return outputs

        def attend_source(x: Tensor) -> Tensor:
            nonlocal cross_scores
            outputs, cross_scores = self.cross_attention(
                x,
                encoder_outputs,
                padding_mask=source_padding_mask,
                return_attention_scores=True,
                training=training,
            )
            return outputs

        outputs = self._sublayers(
            inputs, attend_self, attend_source, training=training
        )
        if return_attention_scores:
            return outputs, self_scores, cross_scores
        return outputs

    @staticmethod
    def _check_mask(
        encoder_outputs: Tensor, source_padding_mask: Tensor | None
    ) -> None:
        # Checked here because the layer inside knows it by another name,
        # which an error would show.
        if source_padding_mask is not None:
            check_padding_mask(
                "source_padding_mask",
                source_padding_mask,
                *encoder_outputs.shape[:2],
            )

    def _sublayers(
        self,
        inputs: Tensor,
        attend_self: Callable[[Tensor], Tensor],
        attend_source: Callable[[Tensor], Tensor],
        training: bool | None = None,
    ) -> Tensor:
        """Computes the three sublayers, each in its residual connection."""
        hidden = self._residual(
            inputs, self.self_attention_norm, attend_self, training=training
        )
        hidden = self._residual(
            hidden, self.cross_attention_norm, attend_source, training=training
        )
        return self._residual(
            hidden,
            self.feed_forward_norm,
            lambda x: self.feed_forward(x, training=training),
            training=training,
        )

    def attention_parts(
        self,
        inputs: Tensor,
        encoder_outputs: Tensor,
        source_padding_mask: Tensor | None = None,
    ) -> tuple[Tensor, AttentionParts, AttentionParts]:
        """Computes the outputs, and attention with its terms kept apart.

        Args:
            inputs, encoder_outputs, source_padding_mask: as of a call.

        Returns:
            Triple of outputs `(B, T, D)` and the `AttentionParts` of
            self-attention and of cross-attention.
        """
        kept = []

        def attend_self(x: Tensor) -> Tensor:
            outputs, parts = self_attention_parts(
                self.self_attention, x, use_causal_mask=True
            )
            kept.append(parts)
            return outputs

        def attend_source(x: Tensor) -> Tensor:
            outputs, parts = cross_attention_parts(
                self.cross_attention, x, encoder_outputs, source_padding_mask
            )
            kept.append(parts)
            return outputs

        outputs = self._sublayers(inputs, attend_self, attend_source)
        return outputs, kept[0], kept[1]

    def start_cache(self, encoder_outputs: Tensor) -> dict[str, Any]:
        """Returns the cache before the first position, for `decode_step`.

        Args:
            encoder_outputs: float tensor `(B, S, D)`.

        Returns:
            Dict: `"self_attention"`, a `KeyValueCache`, and `"source"`, keys
            and values of the source. The beams of a sentence share both.
        """
        return {
            "self_attention": self.self_attention.start_cache(
                sizes(encoder_outputs)[0]
            ),
            "source": self.cross_attention.project_source(encoder_outputs),
        }

    def merge_cache(self, cache: dict[str, Any]) -> dict[str, Any]:
        """Merges the cache, see `RelativeSelfAttention.merge_cache`.

        Args:
            cache: what `start_cache` or `decode_step` returned.
        """
        merged = self.self_attention.merge_cache(cache["self_attention"])
        return {**cache, "self_attention": merged}

    def decode_step(
        self,
        inputs: Tensor,
        cache: dict[str, Any],
        position: int | Tensor,
        ancestors: Tensor | None = None,
        source_padding_mask: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Computes the outputs of one position further.

        Args:
            inputs: float tensor `(B, M, D)`, the token at `position` of each
                of `M` beams a sentence.
            cache: what `start_cache` or the step before returned.
            position: int scalar, absolute, 0 first.
            ancestors: int tensor `(B, M, position + 1)`, whose history is
                whose, see
                `RelativeSelfAttention.decode_step`.
            source_padding_mask: bool tensor `(B, S)`. `True` = real token.

        Returns:
            Pair of outputs `(B, M, D)` and the cache, one position longer.
        """
        # A new dict: whoever holds the old cache still has it as it was.
        cache = dict(cache)

        def attend_self(x: Tensor) -> Tensor:
            outputs, cache["self_attention"] = self.self_attention.decode_step(
                x, cache["self_attention"], position, ancestors
            )
            return outputs

        def attend_source(x: Tensor) -> Tensor:
            # The beams of a sentence are so many queries of it.
            return self.cross_attention.decode_step(
                x, cache["source"], padding_mask=source_padding_mask
            )

        return self._sublayers(inputs, attend_self, attend_source), cache

    def compute_output_shape(
        self, inputs_shape: Shape, encoder_outputs_shape: Shape
    ) -> Shape:
        return inputs_shape

    def compute_output_spec(
        self,
        inputs: Tensor,
        encoder_outputs: Tensor,
        source_padding_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> keras.KerasTensor | tuple[keras.KerasTensor, ...]:
        self._check_mask(encoder_outputs, source_padding_mask)
        b, t, _ = inputs.shape
        return attention_output_spec(
            inputs.shape,
            self.compute_dtype,
            [
                (b, self.self_attention.num_heads, t, t),
                (
                    b,
                    self.cross_attention.num_heads,
                    t,
                    encoder_outputs.shape[1],
                ),
            ],
            return_attention_scores,
        )

    def get_config(self) -> dict[str, Any]:
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "self_attention": serialize(self.self_attention),
            "cross_attention": serialize(self.cross_attention),
            "feed_forward": serialize(self.feed_forward),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "TransformerDecoderBlock":
        deserialize = keras.saving.deserialize_keras_object
        layers = {
            name: deserialize(config[name])
            for name in ("self_attention", "cross_attention", "feed_forward")
        }
        return cls(**{**config, **layers})
