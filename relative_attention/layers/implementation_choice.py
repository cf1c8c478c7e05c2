"""The choice between the ways to compute relative attention.

`"transpose"` gathers an embedding for every pair of tokens, `(T, T, H)`, as
tensor2tensor does; `"blocks"` computes a block of queries at a time and never
makes that tensor. There are two kinds of blocks: scores worked on region by
region (`block_attention.py`), for any backend, and relations added along
diagonals (`diagonal_attention.py`), in fewer operations, for TensorFlow on
CPUs. Their times, by length, stand in the docstring of
`RelativeSelfAttention`; `benchmarks/attention/attention_speed.py` measures
them.
"""

import keras

from relative_attention.ops.onednn import computes_with_onednn
from relative_attention.ops.own_kernels import prefers_own_kernels

IMPLEMENTATIONS = ("auto", "transpose", "blocks")

# Under 64 tokens "transpose" was as fast or faster; beyond 256 it was always
# slower, and its memory grows with the square of the length.
_SHORTEST_IN_BLOCKS = 64
_LONGEST_IN_TRANSPOSE = 256
# Without oneDNN, regions are faster from there on.
_LONGEST_ON_DIAGONALS = 512


def uses_blocks(
    implementation: str, length: int | None, max_relative_position: int
) -> bool:
    """Tells whether attention without scores is computed in blocks.

    `"auto"` chooses blocks for more than 256 tokens, for 64 to 256 tokens if
    there are more than `2K`, and in a graph that is made for any length.

    Args:
        implementation: string, one of `IMPLEMENTATIONS`.
        length: int, number `T` of tokens; `None` if it is not known yet.
        max_relative_position: int. Clipping distance `K`.

    Returns:
        A boolean.
    """
    if implementation != "auto":
        return implementation == "blocks"
    if length is None or length > _LONGEST_IN_TRANSPOSE:
        return True
    # Where the two were measured to cross. Up to 128 tokens there is one
    # block, and what it gains is that no tensor `(T, T, H)` is gathered; from
    # there on keys farther than K need no edge, either. With 2K tokens or
    # fewer hardly a pair is clipped.
    return length >= max(_SHORTEST_IN_BLOCKS, 2 * max_relative_position + 1)


def uses_diagonals(length: int | None, max_relative_position: int) -> bool:
    """Tells whether what is computed in blocks has its relations on diagonals.

    That takes the fewest operations, each of which costs most where TensorFlow
    computes with oneDNN, as it does on processors with AVX-512 or AMX.

    Args:
        length: int, number `T` of tokens; `None` if it is not known yet.
        max_relative_position: int. Clipping distance `K`.

    Returns:
        A boolean; `False` where `diagonal_attention` cannot be used.
    """
    if length is None or min(length - 1, max_relative_position) < 1:
        return False
    # Measured with TensorFlow on CPUs alone.
    if keras.backend.backend() != "tensorflow" or not prefers_own_kernels():
        return False
    return length <= _LONGEST_ON_DIAGONALS or computes_with_onednn()
