"""Constraints on translations: how long they are, and what they begin with."""

from keras import ops

from relative_attention.decoding.active_sentences import ActiveSentences
from relative_attention.decoding.constraint_tensors import ConstraintTensors
from relative_attention.decoding.start_and_end import END_ID
from relative_attention.tensor_type import Tensor

# Log-probability of what is impossible; finite, so that sums stay numbers.
IMPOSSIBLE = -1e7


class Constraints:
    """The constraints on each translation of a batch, as a graph needs them.

    Args:
        tensors: `ConstraintTensors`.

    Attributes:
        limits: int tensor `(B,)`, the longest translation of each sentence.
    """

    def __init__(self, tensors: ConstraintTensors) -> None:
        limits = ops.minimum(
            _lengths(tensors.source_token_ids) + tensors.max_extra_length,
            tensors.max_length,
        )
        self._prefix = None
        if tensors.target_prefix is not None:
            # A column of zeros, where every prefix has ended: a position
            # beyond all the prefixes reads that one.
            self._prefix = ops.pad(tensors.target_prefix, ((0, 0), (0, 1)))
            lengths = _lengths(tensors.target_prefix)
            limits = ops.where(
                lengths > 0, ops.maximum(limits, lengths + 1), limits
            )
        self.limits = ops.maximum(limits, 0)
        self._min_lengths = None
        if tensors.min_length is not None:
            self._min_lengths = ops.minimum(self.limits, tensors.min_length)

    def forbid(
        self, logits: Tensor, position: Tensor, active: ActiveSentences
    ) -> Tensor:
        """Lowers the logits of the tokens that are not allowed.

        Args:
            logits: float tensor `(A, M, V)`.
            position: int scalar, where the token would stand.
            active: `ActiveSentences`.

        Returns:
            The logits, `IMPOSSIBLE` where a token is not allowed. They are the
            same object where no constraint was asked for.
        """
        token_ids = ops.arange(logits.shape[-1], dtype="int32")
        if self._min_lengths is not None:
            is_early = position + 1 < active.gather_active(self._min_lengths)
            is_forbidden = is_early[:, None, None] & (token_ids == END_ID)
            logits = ops.where(is_forbidden, IMPOSSIBLE, logits)
        if self._prefix is not None:
            last = ops.shape(self._prefix)[1] - 1
            forced = ops.take(
                active.gather_active(self._prefix),
                ops.minimum(position, last),
                axis=1,
            )[:, None, None]  # (A, 1, 1)
            is_allowed = (forced == 0) | (token_ids == forced)
            logits = ops.where(is_allowed, logits, IMPOSSIBLE)
        return logits


def _lengths(token_ids: Tensor) -> Tensor:
    """Counts the ids of each row that are not padding: `(B, S)` -> `(B,)`."""
    return ops.sum(ops.cast(ops.not_equal(token_ids, 0), "int32"), axis=1)
