"""The largest values of a large vocabulary, quickly."""

import math

from keras import ops

from relative_attention.decoding.take_rows import take_rows
from relative_attention.ops.backend import prefers_own_kernels
from relative_attention.tensor_type import Tensor

# Below any logit, those made impossible too.
_LOWEST = -1e30


def top_k(values: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Finds the `k` largest values, as `keras.ops.top_k`, for a vocabulary.

    The `k` largest are among the `k` chunks with the largest maxima, so that
    only those few are sorted: a maximum over all is several times as fast on
    a CPU.

    Args:
        values: float tensor `(A, M, V)`.
        k: int, at most `V`.

    Returns:
        Triple of values `(A, M, k)`, largest first, their indices, int32, and
        the largest value `(A, M, 1)`.
    """
    if not prefers_own_kernels():
        largest, indices = ops.top_k(values, k)
        return largest, ops.cast(indices, "int32"), largest[..., :1]
    # For 128 rows of 8,000 and k = 8, on two CPU cores, Keras' own takes 2
    # times as long on TensorFlow, 12 times on JAX, nine tenths on PyTorch.
    num_beams, size = values.shape[1:]
    width = _chunk_width(size)
    num_chunks = math.ceil(size / width)
    missing = num_chunks * width - size
    if missing:
        values = ops.pad(
            values, ((0, 0), (0, 0), (0, missing)), constant_values=_LOWEST
        )
    chunks = ops.reshape(values, (-1, num_chunks, width))
    maxima = ops.max(chunks, axis=-1)  # (A * M, V / width)
    num_best = min(k, num_chunks)
    _, best = ops.top_k(maxima, num_best)
    best = ops.cast(best, "int32")
    # The best chunks of a row side by side: the few values that are sorted.
    rows = ops.arange(ops.shape(chunks)[0], dtype="int32")[:, None]
    flat = ops.reshape(chunks, (-1, width))
    finalists = ops.reshape(
        take_rows(flat, rows * num_chunks + best),
        (-1, num_best * width),
    )
    largest, indices = ops.top_k(finalists, k)
    indices = ops.cast(indices, "int32")
    # From an index among those to one in the vocabulary.
    chunk = ops.take_along_axis(best, indices // width, axis=-1)
    return (
        ops.reshape(largest, (-1, num_beams, k)),
        ops.reshape(chunk * width + indices % width, (-1, num_beams, k)),
        ops.reshape(largest[:, :1], (-1, num_beams, 1)),
    )


def _chunk_width(size: int) -> int:
    """Returns about the root, a divisor of `size` where there is one near."""
    root = math.isqrt(size)
    near = range(max(root, 1), 2 * root + 2)
    return next((width for width in near if size % width == 0), root + 1)
