"""The best continuations of the beams of a sentence."""

import math
from typing import NamedTuple

from keras import ops

from relative_attention.decoding.compiled import take_rows
from relative_attention.ops.backend import prefers_own_kernels
from relative_attention.tensor_type import Tensor

# Below any logit, those made impossible too.
_LOWEST = -1e30


class Continuations(NamedTuple):
    """The `C` best continuations of each sentence, best first.

    Attributes:
        token_ids: int32 tensor `(A, C)`, the token that each adds.
        parents: int32 tensor `(A, C)`, the index of the beam that each
            continues.
        log_probs: float32 tensor `(A, C)`, log P of the whole hypothesis.
        is_broken: bool tensor `(A,)`, whether a logit was not finite.
    """

    token_ids: Tensor
    parents: Tensor
    log_probs: Tensor
    is_broken: Tensor


def best_continuations(
    beam_log_probs: Tensor,
    logits: Tensor,
    allowed: Tensor,
    num_continuations: int,
) -> Continuations:
    """Finds the best tokens to continue the beams of each sentence with.

        log P(y_1 .. y_t | x) = log P(y_1 .. y_(t-1) | x) + logit(y_t) - log Z
        Z = sum of exp(logit) over the vocabulary

    Args:
        beam_log_probs: float tensor `(A, M)`.
        logits: float tensor `(A, M, V)`.
        allowed: the logits, with those of tokens not allowed far below. The
            same object as `logits` where all are allowed.
        num_continuations: int `C`, over all beams of a sentence.
    """
    num_beams, vocabulary_size = logits.shape[1:]
    # The best of a sentence are among the best of each of its beams, and
    # those need no normalized copy of all the logits.
    per_beam = min(num_continuations, vocabulary_size)
    best_logits, token_ids, largest = top_k(allowed, per_beam)
    if allowed is logits:
        # exp(logit) / Z of the best token is at least `1 / V`. A softmax
        # passes over the vocabulary half as often as a sum of exponentials.
        probability = ops.take_along_axis(
            ops.softmax(logits), token_ids[..., :1], axis=-1
        )
        normalizer = largest - ops.log(probability)  # log Z, (A, M, 1)
    else:
        # What is not allowed stays in the sum: the log-probabilities are those
        # of the model, which knows no constraint.
        normalizer = ops.logsumexp(logits, axis=-1, keepdims=True)
    totals = beam_log_probs[..., None] + best_logits - normalizer
    log_probs, indices = ops.top_k(
        ops.reshape(totals, (-1, num_beams * per_beam)), num_continuations
    )
    token_ids = ops.reshape(token_ids, (-1, num_beams * per_beam))
    return Continuations(
        token_ids=take_beams(token_ids, indices),
        parents=ops.cast(indices // per_beam, "int32"),
        log_probs=log_probs,
        # A single logit that is not finite makes the sum so.
        is_broken=ops.logical_not(
            ops.all(ops.isfinite(normalizer), axis=(1, 2))
        ),
    )


def take_beams(values: Tensor, beams: Tensor) -> Tensor:
    """Takes beams of each sentence: `(B, M, ...)`, `(B, m)` -> `(B, m, ...)`.

    Args:
        values: tensor `(B, M, ...)`.
        beams: int tensor `(B, m)` of indices in `[0, M)`.
    """
    shape = tuple(ops.shape(values))
    flat = ops.reshape(values, (shape[0] * shape[1], *shape[2:]))
    # Beam m of sentence b is row b * M + m of the flat values.
    first_rows = ops.arange(ops.shape(beams)[0], dtype="int32")[:, None]
    rows = first_rows * shape[1] + ops.cast(beams, "int32")
    return take_rows(flat, rows)


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
    # From an index among the finalists to one in the vocabulary.
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
