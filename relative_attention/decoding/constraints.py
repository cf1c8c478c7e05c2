"""Constraints on a translation: its length, its beginning, its repeats."""

import contextlib
import contextvars
import warnings
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from relative_attention.argument_checks import checked_at_least
from relative_attention.argument_checks import checked_int
from relative_attention.decoding.model_steps import END_ID
from relative_attention.decoding.model_steps import ActiveSentences
from relative_attention.ops.backend import known_values
from relative_attention.tensor_type import Tensor

# Log-probability of an impossible hypothesis; finite, so that sums are numbers.
IMPOSSIBLE = -1e7
# Longer than any translation, and far below the largest int32.
_NO_LIMIT = 2**30
# Logits that a step may have for one sentence: 512 MB in float32, of which
# there are several copies.
_MAX_LOGITS = 2**27


# Whether a vocabulary made the sources. A `TokenVocabulary` may have no end of
# sentence, as in OpenNMT-tf.
_ends_are_known = contextvars.ContextVar("ends_are_known", default=False)


@contextlib.contextmanager
def known_ends() -> Iterator[None]:
    """Within it, searches do not warn of sources without an end."""
    token = _ends_are_known.set(True)
    try:
        yield
    finally:
        _ends_are_known.reset(token)


class Constraints(NamedTuple):
    """The sources of a batch, and the constraints on their translations.

    Constraints that are not set are `None`, and not computed.

    Attributes:
        source_token_ids: int tensor `(B, S)`, padded with id 0.
        limits: int tensor `(B,)`, the longest translation of each sentence.
        min_lengths: int tensor `(B,)`, or `None`.
        target_prefix: int tensor `(B, P + 1)`, padded with id 0, or `None`.
    """

    source_token_ids: Tensor
    limits: Tensor
    min_lengths: Tensor | None = None
    target_prefix: Tensor | None = None

    def as_tensors(self) -> "Constraints":
        """Returns the same as int32 tensors."""
        return Constraints(
            *(
                None if value is None else ops.convert_to_tensor(value, "int32")
                for value in self
            )
        )

    def forbid(
        self,
        logits: Tensor,
        position: Tensor,
        active: ActiveSentences,
        beam_token_ids: Tensor | None = None,
        size: int = 0,
    ) -> Tensor:
        """Lowers the logits of the tokens that are not allowed.

        Args:
            logits: float tensor `(A, M, V)`.
            position: int scalar, the position of the token.
            active: `ActiveSentences`.
            beam_token_ids: int tensor `(A, M, p)`, the tokens of each beam so
                far; there may be more columns. Only needed with `size`.
            size: int. No beam gets so many tokens in a row a second time; `0`
                allows repeats.

        Returns:
            The logits, `IMPOSSIBLE` for tokens that are not allowed. The same
            object if there is no constraint.
        """
        token_ids = ops.arange(logits.shape[-1], dtype="int32")
        if self.min_lengths is not None:
            is_early = position + 1 < active.gather_active(self.min_lengths)
            is_forbidden = is_early[:, None, None] & (token_ids == END_ID)
            logits = ops.where(is_forbidden, IMPOSSIBLE, logits)
        given = logits
        if size:
            is_repeat = repeating_tokens(
                beam_token_ids, position, size, logits.shape[-1]
            )
            logits = ops.where(is_repeat, IMPOSSIBLE, logits)
        if self.target_prefix is not None:
            last = ops.shape(self.target_prefix)[1] - 1
            forced = ops.take(
                active.gather_active(self.target_prefix),
                ops.minimum(position, last),
                axis=1,
            )[:, None, None]  # (A, 1, 1)
            # A prefix may repeat itself.
            logits = ops.where(forced == 0, logits, given)
            is_allowed = (forced == 0) | (token_ids == forced)
            logits = ops.where(is_allowed, logits, IMPOSSIBLE)
        return logits


def repeating_tokens(
    token_ids: Tensor, position: Tensor, size: int, vocabulary_size: int
) -> Tensor:
    """Finds the tokens that would end an n-gram which a beam already has.

    Args:
        token_ids: int tensor `(A, M, P)`, of which the columns before
            `position` are the tokens of each beam.
        position: int scalar, the position of the next token.
        size: int, the length of n-grams.
        vocabulary_size: int `V`.

    Returns:
        bool tensor `(A, M, V)`.
    """
    batch_size, num_beams, width = ops.shape(token_ids)
    columns = ops.arange(width, dtype="int32")
    # Whether an n-gram that ends at a column begins with the tokens that come
    # before `position`, compared one after another.
    is_same = ops.broadcast_to(
        columns < position, (batch_size, num_beams, width)
    )
    missing = ((0, 0), (0, 0), (size - 1, 0))
    padded = ops.pad(token_ids, missing, constant_values=-1)
    for distance in range(1, size):
        start = size - 1 - distance
        before = padded[:, :, start : start + width]
        last = ops.take(padded, [position + start], axis=2)
        is_same = ops.logical_and(is_same, before == last)
    # Marks the token of each such column in a row for each beam.
    num_rows = batch_size * num_beams
    rows = ops.arange(num_rows, dtype="int32")[:, None] * vocabulary_size
    places = rows + ops.reshape(token_ids, (num_rows, width))
    counts = ops.segment_sum(
        ops.reshape(ops.cast(is_same, "int32"), (-1,)),
        ops.reshape(places, (-1,)),
        num_rows * vocabulary_size,
    )
    return ops.reshape(counts > 0, (batch_size, num_beams, vocabulary_size))


def make_constraints(
    source_token_ids: Tensor,
    max_extra_length: int = 50,
    max_length: int | None = None,
    min_length: int = 0,
    target_prefix: Tensor | None = None,
    config: Any = None,
) -> Constraints:
    """Checks the arguments of a search, which may become tensors.

    Args:
        source_token_ids, max_extra_length, max_length, min_length: see
            `beam_search`.
        target_prefix: see `beam_search`.
        config: `TransformerConfig`, against whose vocabularies ids are
            checked. Defaults to `None`, no check.

    Raises:
        ValueError: see `beam_search`.
    """
    max_extra_length = checked_int(
        "max_extra_length", max_extra_length, None, "an int"
    )
    min_length = checked_at_least("min_length", min_length, 0)
    if max_length is not None:
        max_length = checked_at_least("max_length", max_length, 0)
    ids = _checked_source(source_token_ids, config)
    # In a graph, use its operations; otherwise NumPy, as JAX would compile each
    # operation for each shape.
    xp: Any = np if isinstance(ids, np.ndarray) else ops
    limits = xp.sum(xp.not_equal(ids, 0), axis=1) + _bounded(max_extra_length)
    if max_length is not None:
        limits = xp.minimum(limits, _bounded(max_length))
    if target_prefix is not None:
        target_prefix = np.asarray(target_prefix)
        _check_prefix(target_prefix, len(source_token_ids), config)
        lengths = np.count_nonzero(target_prefix, axis=1)
        limits = xp.where(lengths > 0, xp.maximum(limits, lengths + 1), limits)
        # A column of zeros, which positions beyond all prefixes read.
        target_prefix = np.pad(target_prefix, ((0, 0), (0, 1)))
    limits = xp.maximum(limits, 0)
    min_lengths = None
    if min_length:
        min_lengths = xp.minimum(limits, _bounded(min_length))
    return Constraints(source_token_ids, limits, min_lengths, target_prefix)


def check_num_beams(model: Any, num_beams: int) -> None:
    """Refuses more beams than fit in memory at a single step.

    Raises:
        ValueError: if there are too many beams for the model's vocabulary.
    """
    config = getattr(model, "config", None)
    if config is None:
        return
    most = max(_MAX_LOGITS // config.vocabulary_size, 1)
    if num_beams > most:
        raise ValueError(
            f"`num_beams` must be at most {most:,} with a vocabulary of "
            f"{config.vocabulary_size:,}: each beam has a logit for every "
            f"piece. Received: num_beams={num_beams}."
        )


def _bounded(length: int) -> int:
    """Returns a length that can be added to sentence lengths in int32."""
    return max(-_NO_LIMIT, min(length, _NO_LIMIT))


def _checked_source(token_ids: Tensor, config: Any) -> Tensor:
    """Returns the ids, as an array if their values are known."""
    expected = (
        "`source_token_ids` must be integers of shape (B, S), a row for each "
        "sentence"
    )
    try:
        if not hasattr(token_ids, "dtype"):
            token_ids = np.asarray(token_ids)
        dtype = keras.backend.standardize_dtype(token_ids.dtype)
    except ValueError as error:
        raise ValueError(
            f"{expected}, padded with 0 to one length; `Translator.translate` "
            f"takes strings. Received: {str(token_ids)[:60]}."
        ) from error
    shape = tuple(token_ids.shape)
    if len(shape) != 2 or "int" not in dtype:
        raise ValueError(f"{expected}. Received: {dtype} of shape {shape}.")
    # In a graph or on an accelerator, ids are not checked.
    is_array = isinstance(token_ids, np.ndarray)
    ids = token_ids if is_array else known_values(token_ids)
    if ids is None:
        return token_ids
    if config is not None:
        size = config.source_vocabulary_size or config.vocabulary_size
        _check_ids("source_token_ids", ids, size)
        if not _ends_are_known.get():
            _check_ends(ids)
    return ids


def _check_ends(ids: np.ndarray) -> None:
    """Warns of sources that do not end with id 1 and then id 0."""
    if not ids.size:
        return
    last = ids.shape[1] - 1 - (ids[:, ::-1] != 0).argmax(axis=1)
    ends = np.take_along_axis(ids, last[:, None], axis=1)[:, 0]
    # A row of zeros has no sentence.
    is_wrong = (ends != END_ID) & (ends != 0)
    if is_wrong.any():
        number = int(is_wrong.argmax())
        warnings.warn(
            "`source_token_ids` should end each sentence with id 1, and pad it "
            "with id 0; without, a model that was trained with them translates "
            f"badly. Received in row {number}: ..., "
            f"{', '.join(map(str, ids[number, -3:]))}.",
            stacklevel=4,
        )


def _check_prefix(prefix: np.ndarray, batch_size: int, config: Any) -> None:
    if prefix.ndim != 2 or len(prefix) != batch_size:
        raise ValueError(
            f"`target_prefix` must have shape ({batch_size}, P), a row for "
            f"each source. Received shape: {prefix.shape}."
        )
    is_padding = prefix == 0
    # True before False means an id 0 before another id.
    has_gap = (is_padding[:, :-1] > is_padding[:, 1:]).any(axis=1)
    is_wrong = has_gap | (prefix == END_ID).any(axis=1)
    if is_wrong.any():
        number = int(is_wrong.argmax())
        raise ValueError(
            "`target_prefix` must hold no end of sentence (id 1) and no id "
            f"after padding (id 0). Received in row {number}: "
            f"{prefix[number].tolist()}."
        )
    if config is not None:
        _check_ids("target_prefix", prefix, config.vocabulary_size)


def _check_ids(name: str, ids: np.ndarray, vocabulary_size: int) -> None:
    if ids.size and (ids.min() < 0 or ids.max() >= vocabulary_size):
        raise ValueError(
            f"`{name}` must hold ids from 0 to {vocabulary_size - 1}. "
            f"Received: {ids.min()} to {ids.max()}."
        )
