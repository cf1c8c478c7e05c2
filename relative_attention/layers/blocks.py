"""Encoder and decoder blocks: sublayers in residual connections."""

from collections.abc import Callable
from typing import Any
from typing import Self
from typing import Unpack

import keras
from keras import ops

from relative_attention.argument_checks import checked_bool
from relative_attention.argument_checks import checked_positive
from relative_attention.argument_checks import checked_rate
from relative_attention.layers.arguments import BlockArguments
from relative_attention.layers.arguments import LayerArguments
from relative_attention.layers.attention import AttentionTerms
from relative_attention.layers.attention import TracedLayer
from relative_attention.layers.dense import width_spec
from relative_attention.layers.dropout import Dropout
from relative_attention.ops.backend import has_own_kernels
from relative_attention.ops.backend import sizes
from relative_attention.ops.backend import static_shape
from relative_attention.ops.backend import widened
from relative_attention.ops.cpu_kernels import layer_normalization
from relative_attention.ops.masks import check_padding_mask
from relative_attention.tensor_type import Shape
from relative_attention.tensor_type import Tensor


class LayerNormalization(keras.layers.LayerNormalization):
    """`keras.layers.LayerNormalization` with a faster gradient on CPUs.

    It has the weights of Keras' layer, and computes as that does except for
    rounding. `axis` must be the last, with `scale` and `center`.
    """

    def call(self, inputs: Tensor) -> Tensor:
        is_tensorflow = keras.backend.backend() == "tensorflow"
        if self.compute_dtype == "float64" and not is_tensorflow:
            return self._call_in_float64(inputs)
        if not has_own_kernels():
            return super().call(inputs)
        rows = widened(ops.reshape(inputs, (-1, inputs.shape[-1])))
        outputs = layer_normalization(
            rows,
            ops.cast(self.gamma, rows.dtype),
            ops.cast(self.beta, rows.dtype),
            self.epsilon,
        )
        outputs = ops.reshape(outputs, static_shape(inputs))
        return ops.cast(outputs, self.compute_dtype)

    def _call_in_float64(self, inputs: Tensor) -> Tensor:
        """Computes what Keras 3.15 does in float32 on JAX and PyTorch."""
        # PyTorch's `ops.mean` has the digits of float32.
        size = inputs.shape[-1]
        centered = inputs - ops.sum(inputs, axis=-1, keepdims=True) / size
        squares = ops.sum(ops.square(centered), axis=-1, keepdims=True)
        scale = ops.rsqrt(squares / size + self.epsilon)
        return centered * scale * self.gamma + self.beta


class TransformerBlock(TracedLayer):
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
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        for name, layer in sublayers.items():
            if not isinstance(layer, keras.layers.Layer):
                raise TypeError(
                    f"`{name}` must be a layer. Received: {name}={layer!r}."
                )
        super().__init__(**kwargs)
        self.dropout = checked_rate("dropout", dropout)
        self.normalize_first = checked_bool("normalize_first", normalize_first)
        self.layer_norm_epsilon = checked_positive(
            "layer_norm_epsilon", layer_norm_epsilon
        )
        self.seed = seed
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(ndim=3)
        self.dropout_layer = Dropout(
            self.dropout, seed=seed, dtype=self.dtype_policy
        )
        self._sublayer_names = list(sublayers)
        for name, layer in sublayers.items():
            setattr(self, name, layer)

    # Keras passes the shapes of all inputs, by position or by name.
    def compute_output_shape(
        self, inputs_shape: Shape, *_: Shape, **__: Shape
    ) -> Shape:
        return inputs_shape

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

    def _build_sublayers(
        self, inputs_shape: Shape, **other_shapes: list[Shape]
    ) -> None:
        """Builds each sublayer, and its layer normalization `{name}_norm`.

        Args:
            inputs_shape: shape of the inputs of all sublayers.
            **other_shapes: by name of a sublayer, the shapes of its others.
        """
        self.input_spec = width_spec(inputs_shape, ndim=3)
        for name in self._sublayer_names:
            layer = getattr(self, name)
            if not layer.built:
                layer.build(inputs_shape, *other_shapes.get(name, []))
            layer_norm = LayerNormalization(
                epsilon=self.layer_norm_epsilon,
                dtype=self.dtype_policy,
                trainable=self.trainable,
                name=f"{name}_norm",
            )
            layer_norm.build((None, None, inputs_shape[-1]))
            setattr(self, f"{name}_norm", layer_norm)

    def _sublayers(
        self,
        inputs: Tensor,
        training: bool | None = None,
        **attend: Callable[[Tensor], Any],
    ) -> Any:
        """Computes the sublayers, each in its residual connection.

        `attend` has the function of each sublayer of attention. If it returns
        pairs, their second parts are returned behind the outputs.
        """
        extras = []
        sublayers: dict[str, Callable[[Tensor], Any]] = {
            **attend,
            "feed_forward": lambda x: self.feed_forward(x, training=training),
        }
        for name, sublayer in sublayers.items():
            layer_norm = getattr(self, f"{name}_norm")
            x = layer_norm(inputs) if self.normalize_first else inputs
            outputs = sublayer(x)
            if isinstance(outputs, tuple):
                outputs, extra = outputs
                extras.append(extra)
            # x + Sublayer(LayerNorm(x)), or as in Vaswani et al., section 3.1,
            # LayerNorm(x + Sublayer(x)).
            inputs = inputs + self.dropout_layer(outputs, training=training)
            if not self.normalize_first:
                inputs = layer_norm(inputs)
        return (inputs, *extras) if extras else inputs


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
        attention_mask: bool tensor, or tensor of zeros and ones, broadcast to
            `(B, T, T)`, or with an axis of heads to `(B, N, T, T)`. `True` and
            `1` = may attend.
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
        **kwargs: Unpack[BlockArguments],
    ) -> None:
        super().__init__(
            {"self_attention": self_attention, "feed_forward": feed_forward},
            **kwargs,
        )

    def build(self, inputs_shape: Shape) -> None:
        self._build_sublayers(inputs_shape)

    def call(
        self,
        inputs: Tensor,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        return self._sublayers(
            inputs,
            training,
            self_attention=lambda x: self.self_attention(
                x,
                attention_mask=attention_mask,
                return_attention_scores=return_attention_scores,
                training=training,
            ),
        )

    def attention_terms(
        self, inputs: Tensor, attention_mask: Tensor | None = None
    ) -> tuple[Tensor, AttentionTerms]:
        """Computes the outputs, and attention as the terms of its sums.

        Keras' masks are not used.

        Args:
            inputs: float tensor `(B, T, D)`.
            attention_mask: as of a call.

        Returns:
            Pair of outputs `(B, T, D)` and `AttentionTerms`.
        """
        return self._sublayers(
            inputs,
            self_attention=lambda x: self.self_attention.attention_terms(
                x, attention_mask=attention_mask
            ),
        )


@keras.saving.register_keras_serializable(package="relative_attention")
class TransformerDecoderBlock(TransformerBlock):
    """Causal self-attention, attention to the encoder, feed-forward layer.

    Each has its own residual connection.

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
        source_padding_mask: bool tensor, or tensor of zeros and ones, `(B, S)`.
            `True` and `1` = real token.
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
        **kwargs: Unpack[BlockArguments],
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
        self._build_sublayers(
            inputs_shape, cross_attention=[encoder_outputs_shape]
        )

    def call(
        self,
        inputs: Tensor,
        encoder_outputs: Tensor,
        source_padding_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Tensor | tuple[Tensor, Tensor, Tensor]:
        # The inner layer has another name for it, which its error would show.
        if source_padding_mask is not None:
            check_padding_mask(
                "source_padding_mask",
                source_padding_mask,
                *encoder_outputs.shape[:2],
            )

        options = {
            "return_attention_scores": return_attention_scores,
            "training": training,
        }
        return self._sublayers(
            inputs,
            training,
            self_attention=lambda x: self.self_attention(
                x, use_causal_mask=True, **options
            ),
            cross_attention=lambda x: self.cross_attention(
                x, encoder_outputs, padding_mask=source_padding_mask, **options
            ),
        )

    def attention_terms(
        self,
        inputs: Tensor,
        encoder_outputs: Tensor,
        source_padding_mask: Tensor | None = None,
    ) -> tuple[Tensor, AttentionTerms, AttentionTerms]:
        """Computes the outputs, and attention as the terms of its sums.

        Keras' masks are not used.

        Args:
            inputs, encoder_outputs, source_padding_mask: as of a call.

        Returns:
            Triple of outputs `(B, T, D)` and the `AttentionTerms` of
            self-attention and of cross-attention.
        """
        return self._sublayers(
            inputs,
            self_attention=lambda x: self.self_attention.attention_terms(
                x, use_causal_mask=True
            ),
            cross_attention=lambda x: self.cross_attention.attention_terms(
                x, encoder_outputs, source_padding_mask
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
                of the `M` beams of a sentence.
            cache: what `start_cache` or the previous step returned.
            position: int scalar, absolute, 0 first.
            ancestors: int tensor `(B, M, position + 1)`, the histories of the
                beams, see `SelfAttention.decode_step`.
            source_padding_mask: bool tensor `(B, S)`. `True` = real token.

        Returns:
            Pair of outputs `(B, M, D)` and the cache, one position longer.
        """
        outputs, extended = self._sublayers(
            inputs,
            self_attention=lambda x: self.self_attention.decode_step(
                x, cache["self_attention"], position, ancestors
            ),
            # All beams of a sentence are queries to the same source.
            cross_attention=lambda x: self.cross_attention.decode_step(
                x, cache["source"], padding_mask=source_padding_mask
            ),
        )
        return outputs, {**cache, "self_attention": extended}
