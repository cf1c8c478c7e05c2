"""Token embeddings, and the logits computed with the same matrix."""

from typing import Any

import keras
from keras import ops

from relative_attention.argument_checks import checked_int
from relative_attention.layers.argument_types import Shape
from relative_attention.ops.known_values import known_values
from relative_attention.ops.masks import padding_mask
from relative_attention.ops.static_shape import static_shape
from relative_attention.tensor_type import Tensor


@keras.saving.register_keras_serializable(package="relative_attention")
class TokenEmbedding(keras.layers.Layer):
    """Rows of a matrix by token id, scaled by `sqrt(D)`; id 0 is zero.

    As in tensor2tensor, initial values are normal with standard deviation
    `D^-0.5`, an id 0 (padding, and the first input of the decoder) embeds to
    the zero vector, and `logits` multiplies by the same matrix unscaled and
    without bias.

    Args:
        vocabulary_size: int. Number of rows `V`.
        hidden_dim: int. Size `D` of a row.
        **kwargs: arguments of `keras.layers.Layer`.

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
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.hidden_dim = hidden_dim

    def build(self, inputs_shape: Shape | None = None) -> None:
        # Not cast by itself: a lookup needs a few rows, not the whole matrix
        # in half precision.
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.vocabulary_size, self.hidden_dim),
            initializer=keras.initializers.RandomNormal(
                stddev=self.hidden_dim**-0.5
            ),
            autocast=False,
        )

    def call(self, inputs: Tensor) -> Tensor:
        self._check_ids(inputs)
        # Where values are not known yet, a negative id would be counted from
        # the end; beyond the last row it is refused, or zero, or not a number.
        ids = ops.cast(inputs, "int32")
        ids = ops.where(ids < 0, self.vocabulary_size, ids)
        rows = ops.take(self.embeddings, ids, axis=0)
        scale = ops.cast(padding_mask(inputs), rows.dtype) * (
            self.hidden_dim**0.5
        )
        return ops.cast(rows * scale[..., None], self.compute_dtype)

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

    def logits(self, hidden: Tensor, few_rows: bool = False) -> Tensor:
        """Computes the products with all rows of the matrix.

        Args:
            hidden: float tensor `(..., D)`.
            few_rows: A boolean to indicate whether these are some hundred rows
                at most, as in a decoding step: on a CPU TensorFlow is then 1.4
                to 4 times as fast with the large matrix on the left; from
                1,000 rows on, slower (`benchmarks/decoding/step_products.py`).
                The numbers are the same. Defaults to `False`.

        Returns:
            Float tensor `(..., V)`.
        """
        embeddings = ops.cast(self.embeddings, hidden.dtype)
        rows = ops.reshape(hidden, (-1, self.hidden_dim))
        if few_rows:
            logits = ops.transpose(ops.matmul(embeddings, ops.transpose(rows)))
        else:
            logits = ops.matmul(rows, ops.transpose(embeddings))
        return ops.reshape(
            logits, (*static_shape(hidden)[:-1], self.vocabulary_size)
        )

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return (*inputs_shape, self.hidden_dim)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "hidden_dim": self.hidden_dim,
        }
