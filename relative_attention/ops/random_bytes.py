"""Random bytes, in few passes over memory."""

from typing import Any

import keras
from keras import ops

from relative_attention.ops.byte_view import byte_view
from relative_attention.tensor_type import Tensor


def random_bytes(size: int | Tensor, seed: Any) -> tuple[Tensor, Tensor]:
    """Draws random bytes, and a random word beside them.

    Args:
        size: int, or int scalar tensor. How many bytes.
        seed: `keras.random.SeedGenerator`.

    Returns:
        Pair of an int32 scalar, and int8 `(size,)`.
    """
    # What a seed draws is what it has drawn since the first runs were saved:
    # a word, and the bytes of those that follow.
    words = _random_words(size // 4 + 2, seed)
    levels = ops.reshape(byte_view(words[1:, None]), (-1,))
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
    words = tf.random.stateless_uniform(
        (count,),
        tf.cast(state, "int32"),
        minval=None,
        maxval=None,
        dtype="int32",
    )
    # The range begins at the least number, to which the word is added: its
    # highest bit is the other. They differ for one word of 2^32, the greatest.
    return tf.bitwise.bitwise_xor(words, -(2**31))
