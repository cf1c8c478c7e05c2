"""Gumbel noise for sampling, a function of what it is drawn for alone."""

from typing import Any

import keras
import numpy as np
from keras import ops

from relative_attention.tensor_type import Tensor

# Odd, so that multiples differ; the first is 2^32 over the golden ratio.
_STEP = 0x9E3779B9
# A mixing function of 32 bits with very little bias (C. Wellons, 2018,
# "Prospecting for Hash Functions").
_MULTIPLIERS = (0x7FEB352D, 0x846CA68B)
# Above this a float32 below 1 would be 1.
_MOST = 1 - 2**-24


def noise_keys(
    source_token_ids: np.ndarray, num_results: int, seed: int | None
) -> Tensor:
    """Makes a key for each draw, of the seed, the sentence and its number.

    Args:
        source_token_ids: int array `(B, S)`, padded with id 0.
        num_results: int `R`.
        seed: int, not negative, or `None` for another at each call.

    Returns:
        Int tensor `(B, R, 2)` of 32 bits.
    """
    # `None` becomes entropy of the system, any other seed is itself.
    entropy: Any = np.random.SeedSequence(seed).entropy
    keys = np.zeros((len(source_token_ids), num_results, 2), np.uint32)
    for row, sentence in zip(keys, source_token_ids):
        ids = sentence[sentence != 0].tolist()
        for number in range(num_results):
            sequence = np.random.SeedSequence([entropy, number, *ids])
            row[number] = sequence.generate_state(2)
    return ops.convert_to_tensor(keys.view(_numpy_dtype()))


def gumbel_noise(keys: Tensor, position: Tensor, num_token_ids: int) -> Tensor:
    """Computes a standard Gumbel number for every token that may come next.

    The token with the largest sum of its logit and its noise is drawn in
    proportion to the probabilities (Gumbel 1954; the Gumbel-max trick).

    Args:
        keys: int tensor `(..., 2)`, see `noise_keys`.
        position: int scalar.
        num_token_ids: int `V`.

    Returns:
        Float32 tensor `(..., V)`.
    """
    position = ops.cast(position + 1, _dtype())
    first = _mixed(keys[..., 0] + position * _word(_STEP))[..., None]
    second = keys[..., 1][..., None]
    # Made once: neighbours must not be neighbours in what is mixed with them.
    token_ids = np.arange(1, num_token_ids + 1, dtype=np.uint64) * _STEP
    token_ids = token_ids.astype(np.uint32).view(_numpy_dtype())
    bits = _mixed(ops.convert_to_tensor(token_ids) + first, second)
    # 31 of them, which a signed integer holds too; near 0 the float is exact.
    uniform = ops.cast(_shifted(bits, 1), "float32") + 0.5
    uniform = ops.minimum(uniform * 2**-31, _MOST)
    # The inverse of exp(-exp(-g)) at 1 - u, exact where u is near 0.
    return -ops.log(-ops.log1p(-uniform))


def _mixed(bits: Tensor, key: Tensor | None = None) -> Tensor:
    """Mixes 32 bits: every bit of the result depends on all of them."""
    bits = ops.bitwise_xor(bits, _shifted(bits, 16)) * _word(_MULTIPLIERS[0])
    if key is not None:
        bits = bits + key
    bits = ops.bitwise_xor(bits, _shifted(bits, 15)) * _word(_MULTIPLIERS[1])
    return ops.bitwise_xor(bits, _shifted(bits, 16))


def _shifted(bits: Tensor, num_bits: int) -> Tensor:
    """Shifts bits to the right, with zeros from the left whatever the sign."""
    bits = ops.right_shift(bits, _word(num_bits))
    return ops.bitwise_and(bits, _word(2 ** (32 - num_bits) - 1))


def _word(value: int) -> Tensor:
    """Makes a constant of 32 bits."""
    word = np.array(value, np.uint32).view(_numpy_dtype())
    return ops.convert_to_tensor(word)


def _dtype() -> str:
    # PyTorch does not compute with unsigned numbers; TensorFlow computes with
    # signed ones of 32 bits on the CPU even where there is a GPU.
    return "int32" if keras.backend.backend() == "torch" else "uint32"


def _numpy_dtype() -> np.dtype:
    return np.dtype(_dtype())
