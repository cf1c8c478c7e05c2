"""The base class of every multi-head attention layer of the package."""

from typing import Any

import keras
from keras import constraints
from keras import initializers
from keras import ops
from keras import regularizers

from relative_attention.argument_checks import checked_bool
from relative_attention.argument_checks import checked_int
from relative_attention.argument_checks import checked_rate
from relative_attention.layers.argument_types import ConstraintLike
from relative_attention.layers.argument_types import InitializerLike
from relative_attention.layers.argument_types import RegularizerLike
from relative_attention.layers.argument_types import Shape
from relative_attention.layers.dropout import Dropout
from relative_attention.layers.head_projection import HeadProjection
from relative_attention.layers.matrix_initializer import MatrixInitializer
from relative_attention.layers.width_spec import width_spec
from relative_attention.tensor_type import Tensor


class MultiHeadLayer(keras.layers.Layer):
    """Projections into heads and back, and the arguments that shape them.

    Sub-layers and weights are named and shaped as in
    `keras.layers.MultiHeadAttention`: `query_dense`, `key_dense` and
    `value_dense` with kernels `(D, N, H)`, `output_dense` with kernel
    `(N, H_v, D)`. One thing differs: initial values are drawn for the matrix
    `(D, N * H)`, as in tensor2tensor. Keras draws them for the 3-D kernel as
    if it were a convolution's, six times too small at base size.
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = False,
        output_shape: int | None = None,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        kernel_regularizer: RegularizerLike = None,
        bias_regularizer: RegularizerLike = None,
        kernel_constraint: ConstraintLike = None,
        bias_constraint: ConstraintLike = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        value_dim = key_dim if value_dim is None else value_dim
        num_heads = checked_int("num_heads", num_heads)
        key_dim = checked_int("key_dim", key_dim)
        value_dim = checked_int("value_dim", value_dim)
        if output_shape is not None:
            output_shape = checked_int("output_shape", output_shape)
        dropout = checked_rate("dropout", dropout)
        use_bias = checked_bool("use_bias", use_bias)
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.dropout = dropout
        self.use_bias = use_bias
        self.output_dim = output_shape
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.bias_regularizer = regularizers.get(bias_regularizer)
        self.kernel_constraint = constraints.get(kernel_constraint)
        self.bias_constraint = constraints.get(bias_constraint)
        self.seed = seed
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(ndim=3)
        self.dropout_layer = Dropout(
            dropout, seed=seed, dtype=self.dtype_policy
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "output_shape": self.output_dim,
            "kernel_initializer": initializers.serialize(
                self.kernel_initializer
            ),
            "bias_initializer": initializers.serialize(self.bias_initializer),
            "kernel_regularizer": regularizers.serialize(
                self.kernel_regularizer
            ),
            "bias_regularizer": regularizers.serialize(self.bias_regularizer),
            "kernel_constraint": constraints.serialize(self.kernel_constraint),
            "bias_constraint": constraints.serialize(self.bias_constraint),
            "seed": self.seed,
        }

    def _build_projections(
        self, inputs_shape: Shape, source_shape: Shape
    ) -> None:
        """Builds W^Q for `inputs`, W^K and W^V for the source, and W^O."""
        self.input_spec = width_spec(inputs_shape, ndim=3)
        query_dim, source_dim = inputs_shape[-1], source_shape[-1]
        self.query_dense = self._head_dense("query", query_dim, self.key_dim)
        self.key_dense = self._head_dense("key", source_dim, self.key_dim)
        self.value_dense = self._head_dense("value", source_dim, self.value_dim)
        self.output_dense = HeadProjection(
            "btnh,nhd->btd",
            output_shape=(None, self.output_dim or query_dim),
            bias_axes="d" if self.use_bias else None,
            name="output",
            **self._dense_arguments(num_input_axes=2),
        )
        self.output_dense.build((None, None, self.num_heads, self.value_dim))

    def _head_dense(
        self, name: str, input_dim: int | None, head_dim: int
    ) -> HeadProjection:
        dense = HeadProjection(
            "btd,dnh->btnh",
            output_shape=(None, self.num_heads, head_dim),
            bias_axes="nh" if self.use_bias else None,
            name=name,
            **self._dense_arguments(num_input_axes=1),
        )
        dense.build((None, None, input_dim))
        return dense

    def _dense_arguments(self, num_input_axes: int) -> dict[str, Any]:
        # Initializers are cloned: one object used thrice would make query,
        # key and value start equal.
        return {
            "kernel_initializer": MatrixInitializer(
                self.kernel_initializer.clone(), num_input_axes
            ),
            "bias_initializer": self.bias_initializer.clone(),
            "kernel_regularizer": self.kernel_regularizer,
            "bias_regularizer": self.bias_regularizer,
            "kernel_constraint": self.kernel_constraint,
            "bias_constraint": self.bias_constraint,
            "dtype": self.dtype_policy,
        }

    def _merge_heads(self, context: Tensor) -> Tensor:
        """Projects context vectors `(B, N, T, H_v)` to outputs `(B, T, D)`."""
        # Concat(head_1, ..., head_N) W^O, as one sum over heads and columns.
        return self.output_dense(ops.transpose(context, (0, 2, 1, 3)))

    def _outputs_shape(self, inputs_shape: Shape) -> Shape:
        return (*inputs_shape[:-1], self.output_dim or inputs_shape[-1])
