"""How long a translation may be, and what it begins with."""

import keras
import numpy as np
from keras import ops

from relative_attention.argument_checks import checked_at_least
from relative_attention.argument_checks import checked_int
from relative_attention.decoding.live_sentences import of_live
from relative_attention.ops.known_values import known_values

END_ID = 1
# Log-probability of what is impossible; finite, so that sums stay numbers.
IMPOSSIBLE = -1e7
# More tokens than any translation has, and far below the largest int32.
_NO_LIMIT = 2**30


def constraint_tensors(
    source_token_ids,
    max_extra_length=50,
    max_length=None,
    min_length=0,
    target_prefix=None,
    config=None,
):
    """Checks what a user asks for; the arguments of `Constraints`.

    What is not asked for is left out, so that nothing is computed for it. The
    ids of a prefix are held against the vocabulary where there is a `config`.

    Raises:
        ValueError: see `beam_search`.
    """
    max_extra_length = checked_int(
        "max_extra_length", max_extra_length, None, "an int"
    )
    min_length = checked_at_least("min_length", min_length, 0)
    if max_length is not None:
        max_length = checked_at_least("max_length", max_length, 0)
    _check_source(source_token_ids, config)
    tensors = {
        "source_token_ids": ops.convert_to_tensor(source_token_ids, "int32"),
        "max_extra_length": _length(max_extra_length),
        "max_length": _length(_NO_LIMIT if max_length is None else max_length),
    }
    if min_length:
        tensors["min_length"] = _length(min_length)
    if target_prefix is not None:
        target_prefix = np.asarray(target_prefix)
        _check_prefix(target_prefix, len(source_token_ids), config)
        tensors["target_prefix"] = ops.convert_to_tensor(target_prefix, "int32")
    return tensors


def _length(value):
    """An int32, to which lengths of sentences can be added."""
    value = max(-_NO_LIMIT, min(value, _NO_LIMIT))
    return ops.convert_to_tensor(value, "int32")


def _check_source(token_ids, config):
    if not hasattr(token_ids, "dtype"):
        token_ids = np.asarray(token_ids)
    dtype = keras.backend.standardize_dtype(token_ids.dtype)
    shape = tuple(token_ids.shape)
    if len(shape) != 2 or "int" not in dtype:
        raise ValueError(
            "`source_token_ids` must be integers of shape (B, S), a row for "
            f"each sentence. Received: {dtype} of shape {shape}."
        )
    ids = known_values(token_ids)
    if config is None or ids is None or not ids.size:
        return
    size = config.source_vocabulary_size or config.vocabulary_size
    if ids.min() < 0 or ids.max() >= size:
        raise ValueError(
            f"`source_token_ids` must hold ids from 0 to {size - 1}. "
            f"Received: {ids.min()} to {ids.max()}."
        )


def _check_prefix(prefix, batch_size, config):
    if prefix.ndim != 2 or len(prefix) != batch_size:
        raise ValueError(
            f"`target_prefix` must have shape ({batch_size}, P), a row for "
            f"each source. Received shape: {prefix.shape}."
        )
    is_padding = prefix == 0
    has_gap = (is_padding[:, :-1] > is_padding[:, 1:]).any(axis=1)
    is_wrong = has_gap | (prefix == END_ID).any(axis=1)
    if is_wrong.any():
        number = int(is_wrong.argmax())
        raise ValueError(
            "`target_prefix` must hold no end of sentence (id 1) and no id "
            f"after padding (id 0). Received in row {number}: "
            f"{prefix[number].tolist()}."
        )
    if config is None:
        return
    size = config.vocabulary_size
    if ((prefix < 0) | (prefix >= size)).any():
        raise ValueError(
            f"`target_prefix` must hold ids from 0 to {size - 1}. Received: "
            f"{prefix.min()} to {prefix.max()}."
        )


class Constraints:
    """What the translations of a batch are held to.

    Args:
        source_token_ids: int tensor `(B, S)`.
        max_extra_length, max_length: int scalars.
        min_length: int scalar, or `None`.
        target_prefix: int tensor `(B, P)`, or `None`.

    Attributes:
        limits: int tensor `(B,)`, the longest translation of each sentence.
    """

    def __init__(
        self,
        source_token_ids,
        max_extra_length,
        max_length,
        min_length=None,
        target_prefix=None,
    ):
        limits = ops.minimum(
            _lengths(source_token_ids) + max_extra_length, max_length
        )
        self.prefix = target_prefix
        if target_prefix is not None:
            # Padded for good, whatever the position.
            self.prefix = ops.pad(target_prefix, ((0, 0), (0, 1)))
            lengths = _lengths(target_prefix)
            limits = ops.where(
                lengths > 0, ops.maximum(limits, lengths + 1), limits
            )
        self.limits = ops.maximum(limits, 0)
        self.shortest = None
        if min_length is not None:
            self.shortest = ops.minimum(self.limits, min_length)

    def forbid(self, logits, position, live):
        """Logits `(A, M, V)` with what is not allowed made impossible."""
        token_ids = ops.arange(logits.shape[-1], dtype="int32")
        if self.shortest is not None:
            is_early = position + 1 < of_live(live, self.shortest)
            is_forbidden = is_early[:, None, None] & (token_ids == END_ID)
            logits = ops.where(is_forbidden, IMPOSSIBLE, logits)
        if self.prefix is not None:
            last = ops.shape(self.prefix)[1] - 1
            forced = ops.take(
                of_live(live, self.prefix), ops.minimum(position, last), axis=1
            )[:, None, None]
            is_allowed = (forced == 0) | (token_ids == forced)
            logits = ops.where(is_allowed, logits, IMPOSSIBLE)
        return logits


def _lengths(token_ids):
    return ops.sum(ops.cast(ops.not_equal(token_ids, 0), "int32"), axis=1)
