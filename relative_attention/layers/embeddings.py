"""Embeddings of tokens, and embeddings that are added to them."""

import math
from collections.abc import Callable
from typing import Any
from typing import Unpack

import keras
from keras import ops

from relative_attention.argument_checks import checked_int
from relative_attention.argument_checks import checked_positive
from relative_attention.layers.arguments import EmbeddingArguments
from relative_attention.layers.arguments import LayerArguments
from relative_attention.layers.dense import QuantizableLayer
from relative_attention.layers.dense import width_spec
from relative_attention.ops.backend import known_values
from relative_attention.ops.backend import matmul
from relative_attention.ops.backend import sizes
from relative_attention.ops.backend import static_shape
from relative_attention.ops.backend import widened
from relative_attention.ops.masks import padding_mask
from relative_attention.tensor_type import Shape
from relative_attention.tensor_type import Tensor

# Rows of tensor2tensor's table. A translation problem uses one of them, but the
# scale of its initial values depends on their number.
_NUM_SPACES = 32


@keras.saving.register_keras_serializable(package="relative_attention")
class TokenEmbedding(QuantizableLayer, keras.layers.Embedding):
    """Rows of a matrix by token id, scaled by `sqrt(D)`; id 0 is zero.

    As in tensor2tensor, initial values are normal with standard deviation
    `D^-0.5`, an id 0 (padding, and the first input of the decoder) embeds to
    the zero vector, and `logits` multiplies by the same matrix unscaled and
    without bias.

    `quantize`, to int8 or int4, and `enable_lora` are Keras' own. The inputs of
    `logits` are not quantized. `matrix` returns the matrix with adapters and
    scales applied.

    Args:
        vocabulary_size: int. Number of rows `V`.
        hidden_dim: int. Size `D` of a row.
        **kwargs: arguments of `keras.layers.Embedding`, except the sizes.

    Call arguments:
        inputs: int tensor `(B, T)` of token ids.

    Returns:
        Float tensor `(B, T, D)`.

    Raises:
        ValueError: if a size is not positive, or the ids are not integers or
            not in the vocabulary (checked if values are known, so not inside
            a compiled function).

    Reference:
     - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), section 3.4
    """

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int,
        **kwargs: Unpack[EmbeddingArguments],
    ) -> None:
        vocabulary_size = checked_int("vocabulary_size", vocabulary_size)
        hidden_dim = checked_int("hidden_dim", hidden_dim)
        kwargs.setdefault(
            "embeddings_initializer",
            keras.initializers.RandomNormal(stddev=hidden_dim**-0.5),
        )
        super().__init__(vocabulary_size, hidden_dim, **kwargs)
        self.vocabulary_size = vocabulary_size
        self.hidden_dim = hidden_dim

    def call(self, inputs: Tensor) -> Tensor:
        self._check_ids(inputs)
        # If values are not known yet, a negative id would count from the end.
        # An id beyond the last row is an error, zero or nan.
        ids = ops.cast(inputs, "int32")
        ids = ops.where(ids < 0, self.vocabulary_size, ids)
        rows = self._rows(lambda weight: ops.take(weight, ids, axis=0))
        scale = ops.cast(padding_mask(inputs), rows.dtype) * (
            self.hidden_dim**0.5
        )
        return ops.cast(rows * ops.expand_dims(scale, -1), self.compute_dtype)

    def add_weight(self, *args: Any, **kwargs: Any) -> keras.Variable:
        """Adds a weight as a layer does, but without autocast.

        A lookup needs a few rows, not the whole matrix in half precision.

        Args:
            *args, **kwargs: as of `keras.layers.Layer.add_weight`.
        """
        return super().add_weight(*args, **{"autocast": False, **kwargs})

    def quantized_call(self, inputs: Tensor) -> Tensor:
        """Computes what `call` does, which applies the scales.

        Args:
            inputs: int tensor `(B, T)` of token ids.
        """
        return self.call(inputs)

    def matrix(self) -> Tensor:
        """Returns the float matrix of rows and logits.

        `embeddings` is the same, unless the layer is quantized.

        Returns:
            The variable of a plain layer; a float tensor `(V, D)` of a
            quantized or adapted one.
        """
        return self._rows(lambda weight: weight)

    def transposed_matrix(self) -> Tensor:
        """Returns a copy of `matrix` for the products of a decoding step.

        On a CPU, TensorFlow multiplies a few rows by it several times as fast
        as by the matrix itself, and making it costs as much as one to four
        such products.

        Returns:
            Float tensor `(D, V)` of the layer's compute dtype.
        """
        return ops.transpose(ops.cast(self.matrix(), self.compute_dtype))

    def logits(
        self, hidden: Tensor, transposed_matrix: Tensor | None = None
    ) -> Tensor:
        """Computes the products with all rows of the matrix.

        Args:
            hidden: float tensor `(..., D)`.
            transposed_matrix: float tensor `(D, V)`, what `transposed_matrix`
                returned. Defaults to `None`: `matrix` is used.

        Returns:
            Float tensor `(..., V)`.
        """
        if transposed_matrix is None:
            matrix = ops.cast(self.matrix(), hidden.dtype)
            transposed_matrix = ops.transpose(matrix)
        rows = ops.reshape(hidden, (-1, self.hidden_dim))
        return ops.reshape(
            matmul(rows, transposed_matrix),
            (*static_shape(hidden)[:-1], self.vocabulary_size),
        )

    def compute_output_spec(self, inputs: Tensor) -> keras.KerasTensor:
        self._check_ids(inputs)
        return super().compute_output_spec(inputs)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["input_dim"], config["output_dim"]
        return {
            **config,
            "vocabulary_size": self.vocabulary_size,
            "hidden_dim": self.hidden_dim,
        }

    def _rows(self, read: Callable[[keras.Variable], Tensor]) -> Tensor:
        """Computes the rows of `matrix` that `read` takes from a weight."""
        rows = read(self._embeddings)
        if self.quantization_mode is not None:
            rows = self._with_scales(rows, read)
        if self.lora_enabled:
            # Keras' adapters are float32, whatever the dtype of the matrix.
            rows = widened(rows)
            first, second = (
                ops.cast(adapter, rows.dtype)
                for adapter in (
                    read(self.lora_embeddings_a),
                    self.lora_embeddings_b,
                )
            )
            rows = rows + (self.lora_alpha / self.lora_rank) * matmul(
                first, second
            )
        return rows

    def _with_scales(
        self, rows: Tensor, read: Callable[[keras.Variable], Tensor]
    ) -> Tensor:
        """Returns the floats that quantized rows stand for."""
        scales = ops.convert_to_tensor(read(self.embeddings_scale))
        if self.quantization_mode == "int4":
            rows = keras.quantizers.unpack_int4(
                ops.convert_to_tensor(rows), self.hidden_dim, axis=-1
            )
        rows = ops.cast(rows, scales.dtype)
        if len(scales.shape) < len(rows.shape):
            return rows / scales[..., None]
        # A scale and a zero for each group of columns.
        groups = ops.cast(self.g_idx, "int32")
        zeros = ops.take(read(self.embeddings_zero), groups, axis=-1)
        return (rows - ops.cast(zeros, scales.dtype)) * ops.take(
            scales, groups, axis=-1
        )

    def _check_ids(self, inputs: Tensor) -> None:
        """Raises `ValueError` for ids that the vocabulary does not have."""
        dtype = keras.backend.standardize_dtype(inputs.dtype)
        if "int" not in dtype:
            raise ValueError(
                "Token ids must be integers. Received: "
                f"{dtype} of shape {tuple(inputs.shape)}. Cast them, or pass "
                '`dtype="int32"` to `keras.Input`.'
            )
        ids = known_values(inputs)
        if ids is None:
            return
        wrong = (ids < 0) | (ids >= self.vocabulary_size)
        if wrong.any():
            raise ValueError(
                f"Token ids must be from 0 to {self.vocabulary_size - 1}, the "
                f"vocabulary of {self.name!r}. Received: {ids[wrong][0]}."
            )


@keras.saving.register_keras_serializable(package="relative_attention")
class TargetSpaceEmbedding(keras.layers.Layer):
    """One learned vector, added to every position of the source.

    In tensor2tensor every problem has the id of a target space (0, generic,
    for translation). The embedding of that id, unscaled, is added to the
    source embeddings before positions are. A model of one problem needs only
    that row, `embedding` `(D,)`. No paper mentions it.

    Args:
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(B, S, D)`, the embedded source.

    Returns:
        Float tensor `(B, S, D)`.
    """

    def __init__(self, **kwargs: Unpack[LayerArguments]) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(ndim=3)

    def build(self, inputs_shape: Shape) -> None:
        self.input_spec = width_spec(inputs_shape, ndim=3)
        hidden_dim = self.input_spec.axes[-1]
        limit = math.sqrt(6 / (_NUM_SPACES + hidden_dim))
        self.embedding = self.add_weight(
            name="embedding",
            shape=(hidden_dim,),
            initializer=keras.initializers.RandomUniform(-limit, limit),
        )

    def call(self, inputs: Tensor) -> Tensor:
        return inputs + ops.cast(self.embedding, inputs.dtype)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return inputs_shape


@keras.saving.register_keras_serializable(package="relative_attention")
class SinusoidalPositions(keras.layers.Layer):
    """Adds sines and cosines of the absolute position to embeddings.

    The columns are tensor2tensor's: all sines, then all cosines, then a zero
    if `D` is odd, with wavelengths from `2 pi` to `2 pi * max_wavelength`.
    Vaswani et al. alternate sine and cosine. The order of the columns makes no
    difference to what a next matrix can learn.

    Args:
        max_wavelength: float. The longest wavelength, in units of `2 pi`
            positions. Defaults to `10_000`.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(B, T, D)`.
        start_position: int. Position of the first row, for cached decoding.
            Defaults to `0`.

    Returns:
        Float tensor `(B, T, D)`.

    Reference:
     - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), section 3.5
    """

    # The fields of a `TransformerConfig` that are its arguments.
    config_fields: tuple[str, ...] = ()

    def __init__(
        self, max_wavelength: float = 10_000, **kwargs: Unpack[LayerArguments]
    ) -> None:
        max_wavelength = checked_positive("max_wavelength", max_wavelength)
        super().__init__(**kwargs)
        self.max_wavelength = max_wavelength
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(ndim=3)

    def call(self, inputs: Tensor, start_position: int | Tensor = 0) -> Tensor:
        _, length, hidden_dim = sizes(inputs)
        positions = ops.arange(length, dtype="int32") + start_position
        encodings = self.encode(positions, hidden_dim)
        return inputs + ops.cast(encodings, inputs.dtype)

    def encode(self, positions: Tensor, hidden_dim: int) -> Tensor:
        """Computes the encodings that are added.

        Args:
            positions: int tensor `(T,)`, absolute, 0 first.
            hidden_dim: int. Number of columns `D`.

        Returns:
            Float tensor `(T, D)`, float32 also in half precision.
        """
        dtype = "float64" if self.compute_dtype == "float64" else "float32"
        # Column c of either half has the angle position * w_c, with
        # w_c = max_wavelength^(-c / (D / 2 - 1)), from c = 0.
        num_timescales = hidden_dim // 2
        log_increment = math.log(self.max_wavelength) / max(
            num_timescales - 1, 1
        )
        frequencies = ops.exp(
            ops.arange(num_timescales, dtype=dtype) * -log_increment
        )
        angles = ops.cast(positions, dtype)[:, None] * frequencies[None]
        encodings = ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=1)
        return ops.pad(encodings, ((0, 0), (0, hidden_dim % 2)))

    # Keras passes it by the name of the argument of `build`.
    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "max_wavelength": self.max_wavelength,
        }


@keras.saving.register_keras_serializable(package="relative_attention")
class LearnedPositions(keras.layers.Layer):
    """Adds a learned embedding of the absolute position to embeddings.

    Args:
        max_length: int. Number of positions with their own embedding; later
            positions share the last one.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(B, T, D)`.
        start_position: int. Position of the first row, for cached decoding.
            Defaults to `0`.

    Returns:
        Float tensor `(B, T, D)`.

    Reference:
     - [Gehring et al., 2017](https://arxiv.org/abs/1705.03122), section 3.1
    """

    # The fields of a `TransformerConfig` that are its arguments.
    config_fields: tuple[str, ...] = ("max_length",)

    def __init__(
        self, max_length: int, **kwargs: Unpack[LayerArguments]
    ) -> None:
        max_length = checked_int("max_length", max_length)
        super().__init__(**kwargs)
        self.max_length = max_length
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(ndim=3)

    def build(self, inputs_shape: Shape) -> None:
        self.input_spec = width_spec(inputs_shape, ndim=3)
        hidden_dim = self.input_spec.axes[-1]
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.max_length, hidden_dim),
            initializer=keras.initializers.RandomNormal(
                stddev=hidden_dim**-0.5
            ),
        )

    def call(self, inputs: Tensor, start_position: int | Tensor = 0) -> Tensor:
        length = sizes(inputs)[1]
        positions = ops.arange(length, dtype="int32") + start_position
        positions = ops.minimum(positions, self.max_length - 1)
        rows = ops.take(self.embeddings, positions, axis=0)
        return inputs + ops.cast(rows, inputs.dtype)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return inputs_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "max_length": self.max_length}
