"""The embedding by which tensor2tensor tells the encoder its problem."""

import math
from typing import Any

import keras
from keras import ops

from relative_attention.layers.argument_types import Shape
from relative_attention.layers.width_spec import known_width
from relative_attention.layers.width_spec import width_spec
from relative_attention.tensor_type import Tensor

# Rows of tensor2tensor's table, of which a translation problem uses one; they
# decide how large its initial values are.
_NUM_SPACES = 32


@keras.saving.register_keras_serializable(package="relative_attention")
class TargetSpaceEmbedding(keras.layers.Layer):
    """One learned vector, added to every position of the source.

    In tensor2tensor every problem has the id of a target space (0, generic,
    for translation), and the embedding of that id, unscaled, is added to the
    source embeddings before positions are. A model of one problem needs that
    one row, `embedding` `(D,)`. It is in no paper.

    Args:
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(B, S, D)`, the embedded source.

    Returns:
        Float tensor `(B, S, D)`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(ndim=3)

    def build(self, inputs_shape: Shape) -> None:
        self.input_spec = width_spec(inputs_shape, ndim=3)
        hidden_dim = known_width(inputs_shape)
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
