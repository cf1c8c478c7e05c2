"""The residual connections that encoder and decoder blocks share."""

from collections.abc import Callable
from typing import Any

import keras

from relative_attention.argument_checks import checked_bool
from relative_attention.argument_checks import checked_positive
from relative_attention.argument_checks import checked_rate
from relative_attention.layers.dropout import Dropout
from relative_attention.layers.layer_normalization import LayerNormalization
from relative_attention.tensor_type import Tensor


class TransformerBlock(keras.layers.Layer):
    """A stack of sublayers, each in a residual connection.

    Args:
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
        dropout: float = 0.0,
        normalize_first: bool = False,
        layer_norm_epsilon: float = 1e-6,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
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

    def _layer_norm(self, name: str, hidden_dim: int) -> LayerNormalization:
        layer_norm = LayerNormalization(
            epsilon=self.layer_norm_epsilon,
            dtype=self.dtype_policy,
            name=name,
        )
        layer_norm.build((None, None, hidden_dim))
        return layer_norm

    def _residual(
        self,
        inputs: Tensor,
        layer_norm: LayerNormalization,
        sublayer: Callable[[Tensor], Tensor],
        training: bool | None = None,
    ) -> Tensor:
        """Adds `sublayer(inputs)` to `inputs`, normalised before or after."""
        if self.normalize_first:
            # x + Sublayer(LayerNorm(x))
            outputs = sublayer(layer_norm(inputs))
            return inputs + self.dropout_layer(outputs, training=training)
        # Vaswani et al., section 3.1: LayerNorm(x + Sublayer(x)).
        outputs = self.dropout_layer(sublayer(inputs), training=training)
        return layer_norm(inputs + outputs)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "dropout": self.dropout,
            "normalize_first": self.normalize_first,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "seed": self.seed,
        }


def check_layers(**layers: Any) -> None:
    """Raises `TypeError` for the first argument that is no Keras layer."""
    for name, layer in layers.items():
        if not isinstance(layer, keras.layers.Layer):
            raise TypeError(
                f"`{name}` must be a layer. Received: {name}={layer!r}."
            )
