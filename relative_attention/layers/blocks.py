"""Encoder and decoder blocks: sublayers in residual connections."""

from collections.abc import Callable
from typing import Any
from typing import Self

import keras

from relative_attention.argument_checks import checked_bool
from relative_attention.argument_checks import checked_positive
from relative_attention.argument_checks import checked_rate
from relative_attention.layers.attention import attention_output_spec
from relative_attention.layers.attention_parts import AttentionParts
from relative_attention.layers.attention_parts import cross_attention_parts
from relative_attention.layers.attention_parts import self_attention_parts
from relative_attention.layers.dense import known_width
from relative_attention.layers.dense import width_spec
from relative_attention.layers.dropout import Dropout
from relative_attention.ops.backend import sizes
from relative_attention.ops.cpu_kernels import layer_normalization
from relative_attention.ops.masks import check_padding_mask
from relative_attention.tensor_type import Shape
from relative_attention.tensor_type import Tensor


@keras.saving.register_keras_serializable(package="relative_attention")
class LayerNormalization(keras.layers.LayerNormalization):
    """`keras.layers.LayerNormalization` with a faster gradient on CPUs.

    On PyTorch and on GPUs it computes as Keras' own does.

    Takes the arguments of `keras.layers.LayerNormalization`, of which it
    supports the default axis with scale and center. `epsilon` defaults to
    `1e-6`, tensor2tensor's, where Keras has `1e-3`.
    """

    def __init__(self, epsilon: float = 1e-6, **kwargs: Any) -> None:
        super().__init__(epsilon=epsilon, **kwargs)
        if self.axis not in (-1, [-1]) or not (self.scale and self.center):
            raise ValueError(
                "`axis` must be -1 and `scale` and `center` must be True; "
                "use `keras.layers.LayerNormalization` for anything else. "
                f"Received: axis={self.axis}, scale={self.scale}, "
                f"center={self.center}."
            )

    def call(self, inputs: Tensor) -> Tensor:
        outputs = layer_normalization(
            inputs, self.gamma, self.beta, self.epsilon
        )
        return keras.ops.cast(outputs, self.compute_dtype)


class TransformerBlock(keras.layers.Layer):
    """A stack of sublayers, each in a residual connection.

    Args:
        sublayers: dict of layers, by the name of their argument.
        dropout: float. Rate in `[0, 1)` on the output of every sublayer.
        normalize_first: bool. Whether layer normalization comes before each
            sublayer ("pre-norm", tensor2tensor's `"n"`, `"da"`) or after the
            residual connection ("post-norm", `"none"`, `"dan"`, as in
            Vaswani et al. 2017).
        layer_norm_epsilon: float. Added to the variance.
        seed: int. Seed of the dropout.
        **kwargs: arguments of `keras.layers.Layer`.
    """

    def __init__(
        self,
        sublayers: dict[str, keras.layers.Layer],
        dropout: float = 0.0,
        normalize_first: bool = False,
        layer_norm_epsilon: float = 1e-6,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        for name, layer in sublayers.items():
            if not isinstance(layer, keras.layers.Layer):
                raise TypeError(
                    f"`{name}` must be a layer. Received: {name}={layer!r}."
                )
        dropout = checked_rate("dropout", dropout)
        normalize_first = checked_bool("normalize_first", normalize_first)
        layer_norm_epsilon = checked_positive(
            "layer_norm_epsilon", layer_norm_epsilon
        )
        super().__init__(**kwargs)
        self.dropout = dropout
        self.normalize_first = normalize_first
        self.layer_norm_epsilon = layer_norm_epsilon
        self.seed = seed
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(ndim=3)
        self.dropout_layer = Dropout(
            dropout, seed=seed, dtype=self.dtype_policy
        )
        self._sublayer_names = list(sublayers)
        for name, layer in sublayers.items():
            setattr(self, name, layer)

    def get_config(self) -> dict[str, Any]:
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "dropout": self.dropout,
            "normalize_first": self.normalize_first,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "seed": self.seed,
            **{
                name: serialize(getattr(self, name))
                for name in self._sublayer_names
            },
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        deserialize = keras.saving.deserialize_keras_object
        names = ("self_attention", "cross_attention", "feed_forward")
        layers = {
            name: deserialize(config[name]) for name in names if name in config
        }
        return cls(**{**config, **layers})

    def _build_sublayer(self, name: str, *shapes: Shape) -> None:
        """Builds a sublayer, and its layer normalization `{name}_norm`."""
        layer = getattr(self, name)
        if not layer.built:
            layer.build(*shapes)
        layer_norm = LayerNormalization(
            epsilon=self.layer_norm_epsilon,
            dtype=self.dtype_policy,
            name=f"{name}_norm",
        )
        layer_norm.build((None, None, known_width(shapes[0])))
        setattr(self, f"{name}_norm", layer_norm)

    def _residual(
        self,
        inputs: Tensor,
        layer_norm: LayerNormalization,
        sublayer: Callable[[Tensor], tuple[Tensor, Any]],
        training: bool | None = None,
    ) -> tuple[Tensor, Any]:
        """Adds the outputs of a sublayer to its inputs.

        A sublayer returns a pair. What it returns beside its outputs is
        returned beside the sum.
        """
        if self.normalize_first:
            # x + Sublayer(LayerNorm(x))
            outputs, extra = sublayer(layer_norm(inputs))
            outputs = self.dropout_layer(outputs, training=training)
            return inputs + outputs, extra
        # Vaswani et al., section 3.1: LayerNorm(x + Sublayer(x)).
        outputs, extra = sublayer(inputs)
        outputs = self.dropout_layer(outputs, training=training)
        return layer_norm(inputs + outputs), extra

    def _feed_forward(
        self, inputs: Tensor, training: bool | None = None
    ) -> Tensor:
        outputs, _ = self._residual(
            inputs,
            self.feed_forward_norm,
            lambda x: (self.feed_forward(x, training=training), None),
            training=training,
        )
        return outputs


@keras.saving.register_keras_serializable(package="relative_attention")
class TransformerEncoderBlock(TransformerBlock):
    """Self-attention, then a feed-forward layer, each in a residual.

    Args:
        self_attention: `SelfAttention`, such as `RelativeSelfAttention`.
        feed_forward: `FeedForward`.
        **kwargs: arguments of `TransformerBlock`: `dropout`,
            `normalize_first`, `layer_norm_epsilon`, `seed`.

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
        super().__init__(
            {"self_attention": self_attention, "feed_forward": feed_forward},
            **kwargs,
        )

    def build(self, inputs_shape: Shape) -> None:
        self.input_spec = width_spec(inputs_shape, ndim=3)
        self._build_sublayer("self_attention", inputs_shape)
        self._build_sublayer("feed_forward", inputs_shape)

    def call(
        self,
        inputs: Tensor,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        def attend(x: Tensor) -> tuple[Tensor, Tensor | None]:
            result = self.self_attention(
                x,
                attention_mask=attention_mask,
                return_attention_scores=return_attention_scores,
                training=training,
            )
            return result if return_attention_scores else (result, None)

        hidden, scores = self._residual(
            inputs, self.self_attention_norm, attend, training=training
        )
        outputs = self._feed_forward(hidden, training)
        return (outputs, scores) if return_attention_scores else outputs

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
        hidden, parts = self._residual(
            inputs,
            self.self_attention_norm,
            lambda x: self_attention_parts(
                self.self_attention, x, attention_mask=attention_mask
            ),
        )
        return self._feed_forward(hidden), parts

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


@keras.saving.register_keras_serializable(package="relative_attention")
class TransformerDecoderBlock(TransformerBlock):
    """Causal self-attention, attention to the encoder, feed-forward layer.

    Each is in a residual connection of its own.

    Masking: the Keras mask of `inputs` hides padded target positions and is
    passed on. That of `encoder_outputs` hides padded source positions, as
    `source_padding_mask` does; with both, a position must be real in both.

    Args:
        self_attention: `SelfAttention`, such as `RelativeSelfAttention`.
        cross_attention: `CrossAttention`.
        feed_forward: `FeedForward`.
        **kwargs: arguments of `TransformerBlock`: `dropout`,
            `normalize_first`, `layer_norm_epsilon`, `seed`.

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
        super().__init__(
            {
                "self_attention": self_attention,
                "cross_attention": cross_attention,
                "feed_forward": feed_forward,
            },
            **kwargs,
        )

    def build(self, inputs_shape: Shape, encoder_outputs_shape: Shape) -> None:
        self.input_spec = width_spec(inputs_shape, ndim=3)
        self._build_sublayer("self_attention", inputs_shape)
        self._build_sublayer(
            "cross_attention", inputs_shape, encoder_outputs_shape
        )
        self._build_sublayer("feed_forward", inputs_shape)

    def call(
        self,
        inputs: Tensor,
        encoder_outputs: Tensor,
        source_padding_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Tensor | tuple[Tensor, Tensor, Tensor]:
        self._check_mask(encoder_outputs, source_padding_mask)

        def attend_self(x: Tensor) -> tuple[Tensor, Tensor | None]:
            result = self.self_attention(
                x,
                use_causal_mask=True,
                return_attention_scores=return_attention_scores,
                training=training,
            )
            return result if return_attention_scores else (result, None)

        def attend_source(x: Tensor) -> tuple[Tensor, Tensor]:
            return self.cross_attention(
                x,
                encoder_outputs,
                padding_mask=source_padding_mask,
                return_attention_scores=True,
                training=training,
            )

        outputs, self_scores, cross_scores = self._sublayers(
            inputs, attend_self, attend_source, training=training
        )
        if return_attention_scores:
            return outputs, self_scores, cross_scores
        return outputs

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
        return self._sublayers(
            inputs,
            lambda x: self_attention_parts(
                self.self_attention, x, use_causal_mask=True
            ),
            lambda x: cross_attention_parts(
                self.cross_attention, x, encoder_outputs, source_padding_mask
            ),
        )

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
        """Merges the cache, see `SelfAttention.merge_cache`.

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
        """Computes the outputs of the next position.

        Args:
            inputs: float tensor `(B, M, D)`, the token at `position` of each
                of `M` beams a sentence.
            cache: what `start_cache` or the step before returned.
            position: int scalar, absolute, 0 first.
            ancestors: int tensor `(B, M, position + 1)`, whose history is
                whose, see `SelfAttention.decode_step`.
            source_padding_mask: bool tensor `(B, S)`. `True` = real token.

        Returns:
            Pair of outputs `(B, M, D)` and the cache, one position longer.
        """

        def attend_source(x: Tensor) -> tuple[Tensor, None]:
            # The beams of a sentence are so many queries of it.
            outputs = self.cross_attention.decode_step(
                x, cache["source"], padding_mask=source_padding_mask
            )
            return outputs, None

        outputs, extended, _ = self._sublayers(
            inputs,
            lambda x: self.self_attention.decode_step(
                x, cache["self_attention"], position, ancestors
            ),
            attend_source,
        )
        return outputs, {**cache, "self_attention": extended}

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
        s = encoder_outputs.shape[1]
        return attention_output_spec(
            inputs.shape,
            self.compute_dtype,
            [
                (b, self.self_attention.num_heads, t, t),
                (b, self.cross_attention.num_heads, t, s),
            ],
            return_attention_scores,
        )

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
        attend_self: Callable[[Tensor], tuple[Tensor, Any]],
        attend_source: Callable[[Tensor], tuple[Tensor, Any]],
        training: bool | None = None,
    ) -> tuple[Tensor, Any, Any]:
        """Computes the three sublayers, each in its residual connection."""
        hidden, of_self = self._residual(
            inputs, self.self_attention_norm, attend_self, training=training
        )
        hidden, of_source = self._residual(
            hidden, self.cross_attention_norm, attend_source, training=training
        )
        return self._feed_forward(hidden, training), of_self, of_source
