"""The rows of ids that a search takes, and constraints on its results.

What a search over steps of a model makes of the constraints is in
`forbidden_tokens`. Nothing here needs Keras, unless sources are tensors.
"""

import contextlib
import contextvars
import warnings
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np

from relative_attention.argument_checks import checked_at_least
from relative_attention.argument_checks import checked_int
from relative_attention.models.config import END_ID
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


def padded_rows(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """Makes an int32 array `(B, S)` of rows of ids, padded with id 0."""
    width = max(map(len, rows), default=0)
    padded = np.zeros((len(rows), width), "int32")
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row
    return padded


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
    xp: Any = np
    if not isinstance(ids, np.ndarray):
        from keras import ops

        xp = ops
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
        # `int32`, of PyTorch `torch.int32`.
        dtype = str(getattr(token_ids.dtype, "name", token_ids.dtype))
        if dtype == "object" or dtype.startswith(("str", "bytes")):
            raise ValueError(f"no numbers but {dtype}")
    except ValueError as error:
        raise ValueError(
            f"{expected}, padded with 0 to one length; `Translator.translate` "
            f"takes strings. Received: {str(token_ids)[:60]}."
        ) from error
    shape = tuple(token_ids.shape)
    if len(shape) != 2 or "int" not in dtype:
        raise ValueError(f"{expected}. Received: {dtype} of shape {shape}.")
    # In a graph or on an accelerator, ids are not checked.
    ids = token_ids
    if not isinstance(token_ids, np.ndarray):
        from relative_attention.ops.backend import known_values

        ids = known_values(token_ids)
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
