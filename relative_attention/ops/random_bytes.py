"""Random bytes, as few passes over memory as there can be."""

from typing import Any

import keras
from keras import ops

from relative_attention.ops.byte_view import byte_view
from relative_attention.tensor_type import Tensor

# A slice of a tensor is no copy in TensorFlow where it begins and ends at a
# multiple of so many words.
_ALIGNED = 16


def random_bytes(size: int | Tensor, seed: Any) -> tuple[Tensor, Tensor]:
    """Draws random bytes, and a random word beside them.

    Args:
        size: int, or int scalar tensor. How many bytes.
        seed: `keras.random.SeedGenerator`.

    Returns:
        Pair of an int32 scalar, and int8 `(size,)`.
    """
    num_words = (size // (4 * _ALIGNED) + 1) * _ALIGNED
    words = _random_words(num_words + _ALIGNED, seed)
    # Read as bytes, a word of them for each of four.
    levels = ops.reshape(byte_view(words[_ALIGNED:, None]), (-1,))
    return words[0], levels[:size]


def _random_words(count: int | Tensor, seed: Any) -> Tensor:
    """Draws int32 `(count,)`, all values alike."""
    if keras.backend.backend() != "tensorflow":
        return keras.random.randint(
            (count,), -(2**31), 2**31 - 1, dtype="int32", seed=seed
        )
    import tensorflow as tf

    # Keras draws from a range, for which each word is divided by its size.
    # Its random functions make a seed of signed numbers in the same way.
    state = tf.math.floormod(
        tf.convert_to_tensor(seed.next()), tf.int32.max - 1
    )
    return tf.random.stateless_uniform(
        (count,),
        tf.cast(state, "int32"),
        minval=None,
        maxval=None,
        dtype="int32",
    )
