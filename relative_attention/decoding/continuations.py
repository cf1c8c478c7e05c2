"""The best continuations of the beams of a sentence."""

from typing import NamedTuple

from keras import ops

from relative_attention.decoding.take_rows import take_rows
from relative_attention.decoding.top_k import top_k
from relative_attention.tensor_type import Tensor


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
        allowed: the logits, with those of tokens not allowed far below. They
            are the same object where all are allowed.
        num_continuations: int `C`, over all beams of a sentence.
    """
    num_beams, vocabulary_size = logits.shape[1:]
    # The best of a sentence are among the best of each of its beams, and
    # those need no normalised copy of all the logits.
    per_beam = min(num_continuations, vocabulary_size)
    best_logits, token_ids, largest = top_k(allowed, per_beam)
    normalizer = _log_sum_of_exp(logits, allowed, token_ids, largest)
    totals = beam_log_probs[..., None] + best_logits - normalizer
    log_probs, indices = ops.top_k(
        ops.reshape(totals, (-1, num_beams * per_beam)), num_continuations
    )
    token_ids = ops.reshape(token_ids, (-1, num_beams * per_beam))
    return Continuations(
        token_ids=take_beams(token_ids, indices),
        parents=ops.cast(indices // per_beam, "int32"),
        log_probs=log_probs,
        # One logit that is no number leaves no sum that is one.
        is_broken=ops.logical_not(
            ops.all(ops.isfinite(normalizer), axis=(1, 2))
        ),
    )


def _log_sum_of_exp(
    logits: Tensor, allowed: Tensor, best_token_ids: Tensor, largest: Tensor
) -> Tensor:
    """Computes `log Z`, `(A, M, 1)`.

    Args:
        logits: float tensor `(A, M, V)`.
        allowed: see `best_continuations`.
        best_token_ids: int tensor `(A, M, C)`, the best allowed ones first.
        largest: float tensor `(A, M, 1)`, the logit of the first of them.
    """
    if allowed is not logits:
        # What is not allowed stays in the sum: the log-probabilities are those
        # of the model, which knows no constraint.
        return ops.logsumexp(logits, axis=-1, keepdims=True)
    # From the probability of the best token, exp(logit) / Z, which is at least
    # `1 / V`: a softmax passes over the vocabulary half as often as a sum of
    # exponentials.
    probability = ops.take_along_axis(
        ops.softmax(logits), best_token_ids[..., :1], axis=-1
    )
    return largest - ops.log(probability)


def take_beams(values: Tensor, beams: Tensor) -> Tensor:
    """Takes the beams `(B, m)` of each sentence.

    Args:
        values: tensor `(B, M, ...)`.
        beams: int tensor `(B, m)` of indices in `[0, M)`.

    Returns:
        Tensor `(B, m, ...)`.
    """
    shape = tuple(ops.shape(values))
    flat = ops.reshape(values, (shape[0] * shape[1], *shape[2:]))
    # Beam m of sentence b is row b * M + m of the flat values.
    first_rows = ops.arange(ops.shape(beams)[0], dtype="int32")[:, None]
    rows = first_rows * shape[1] + ops.cast(beams, "int32")
    return take_rows(flat, rows)
