"""Token embeddings, and the logits computed with the same matrix."""

from typing import Any

import keras
from keras import ops

from relative_attention.argument_checks import checked_int
from relative_attention.layers.argument_types import Shape
from relative_attention.layers.quantization_mode import check_quantization_mode
from relative_attention.ops.backend import known_values
from relative_attention.ops.backend import static_shape
from relative_attention.ops.masks import padding_mask
from relative_attention.tensor_type import Tensor


@keras.saving.register_keras_serializable(package="relative_attention")
class TokenEmbedding(keras.layers.Embedding):
    """Rows of a matrix by token id, scaled by `sqrt(D)`; id 0 is zero.

    As in tensor2tensor, initial values are normal with standard deviation
    `D^-0.5`, an id 0 (padding, and the first input of the decoder) embeds to
    the zero vector, and `logits` multiplies by the same matrix unscaled and
    without bias.

    `quantize("int8")` and `enable_lora` are Keras': a row of int8 has a scale
    of its own, by which embeddings and logits are divided; what is multiplied
    by an int8 matrix stays as it is. `matrix` is what rows and logits are
    made of, adapted and scaled.

    Args:
        vocabulary_size: int. Number of rows `V`.
        hidden_dim: int. Size `D` of a row.
        **kwargs: arguments of `keras.layers.Embedding`, but for the sizes.

    Call arguments:
        inputs: int tensor `(B, T)` of token ids.

    Returns:
        Float tensor `(B, T, D)`.

    Raises:
        ValueError: if a size is not positive, or the ids are no integers or
            lie outside the vocabulary (checked where values are known, so not
            inside a compiled function).

    Reference:
     - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), section 3.4
    """

    def __init__(
        self, vocabulary_size: int, hidden_dim: int, **kwargs: Any
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

    def add_weight(self, *args: Any, **kwargs: Any) -> keras.Variable:
        """Adds a weight as a layer does, but not cast by itself.

        A lookup needs a few rows, not the whole matrix in half precision.

        Args:
            *args, **kwargs: as of `keras.layers.Layer.add_weight`.
        """
        return super().add_weight(*args, **{"autocast": False, **kwargs})

    def call(self, inputs: Tensor) -> Tensor:
        self._check_ids(inputs)
        # Where values are not known yet, a negative id would be counted from
        # the end; beyond the last row it is refused, or zero, or not a number.
        ids = ops.cast(inputs, "int32")
        ids = ops.where(ids < 0, self.vocabulary_size, ids)
        rows = self._rows(ids)
        scale = ops.cast(padding_mask(inputs), rows.dtype) * (
            self.hidden_dim**0.5
        )
        return ops.cast(rows * ops.expand_dims(scale, -1), self.compute_dtype)

    def quantized_call(self, inputs: Tensor) -> Tensor:
        """Computes what `call` does: it knows of the scales.

        Args:
            inputs: int tensor `(B, T)` of token ids.
        """
        return self.call(inputs)

    def _rows(self, ids: Tensor) -> Tensor:
        """Reads rows of `matrix` without computing all of it."""
        rows = ops.take(self._embeddings, ids, axis=0)
        if self.quantization_mode is not None:
            scales = ops.take(self.embeddings_scale, ids, axis=0)
            rows = ops.cast(rows, scales.dtype) / scales[..., None]
        if self.lora_enabled:
            adapters = ops.take(self.lora_embeddings_a, ids, axis=0)
            rows = rows + self._adapted(adapters)
        return rows

    def _adapted(self, rows: Tensor) -> Tensor:
        return (self.lora_alpha / self.lora_rank) * ops.matmul(
            rows, self.lora_embeddings_b
        )

    def matrix(self) -> Tensor:
        """Returns the matrix of floats that rows and logits are made of.

        `embeddings` is that too, unless the layer is quantized.

        Returns:
            The variable of a plain layer; of one that is quantized or
            adapted, a float tensor `(V, D)`.
        """
        if self.quantization_mode is None and not self.lora_enabled:
            return self._embeddings
        matrix = self._embeddings
        if self.quantization_mode is not None:
            scales = ops.convert_to_tensor(self.embeddings_scale)
            matrix = ops.cast(matrix, scales.dtype) / scales[:, None]
        if self.lora_enabled:
            matrix = matrix + self._adapted(self.lora_embeddings_a)
        return matrix

    def quantize(
        self,
        mode: str | None = None,
        type_check: bool = True,
        config: Any = None,
    ) -> None:
        """Stores the matrix as int8, as `keras.layers.Embedding` does.

        Args:
            mode: string. `"int8"`.
            type_check: A boolean to indicate whether a subclass, which may
                compute something else, is refused. Defaults to `True`.
            config: `keras.quantizers.Int8QuantizationConfig`.

        Raises:
            NotImplementedError: if the mode is another, or the layer is of a
                subclass.
        """
        if type_check and type(self) is not TokenEmbedding:
            raise self._not_implemented_error(self.quantize)
        check_quantization_mode(mode)
        # Keras refuses subclasses of its layer as well, unless told not to.
        super().quantize(mode, type_check=False, config=config)

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

    def compute_output_spec(self, inputs: Tensor) -> keras.KerasTensor:
        self._check_ids(inputs)
        return keras.KerasTensor(
            self.compute_output_shape(inputs.shape), dtype=self.compute_dtype
        )

    def transposed_matrix(self) -> Tensor:
        """Returns a copy of `matrix` for the products of a decoding step.

        Of few rows TensorFlow multiplies by it several times as fast as by
        the matrix itself on a CPU, and making it costs no more than one to
        four such products (`benchmarks/decoding/step_products.py`).

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
                returned. Defaults to `None`, where `matrix` is multiplied.

        Returns:
            Float tensor `(..., V)`.
        """
        if transposed_matrix is None:
            matrix = ops.cast(self.matrix(), hidden.dtype)
            transposed_matrix = ops.transpose(matrix)
        rows = ops.reshape(hidden, (-1, self.hidden_dim))
        return ops.reshape(
            ops.matmul(rows, transposed_matrix),
            (*static_shape(hidden)[:-1], self.vocabulary_size),
        )

    # The argument is named as that of `build`, by which Keras passes it.
    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape, self.hidden_dim)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["input_dim"], config["output_dim"]
        return {
            **config,
            "vocabulary_size": self.vocabulary_size,
            "hidden_dim": self.hidden_dim,
        }
