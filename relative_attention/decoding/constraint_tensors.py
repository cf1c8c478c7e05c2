"""Checks of the constraints that a user asks for, and these as tensors."""

from typing import Any
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from relative_attention.argument_checks import checked_at_least
from relative_attention.argument_checks import checked_int
from relative_attention.decoding.start_and_end import END_ID
from relative_attention.ops.backend import known_values
from relative_attention.tensor_type import Tensor

# More tokens than any translation has, and far below the largest int32.
_NO_LIMIT = 2**30


class ConstraintTensors(NamedTuple):
    """The sources, and what their translations are held to.

    What nobody asked for is `None`, so that nothing is computed for it.

    Attributes:
        source_token_ids: int tensor `(B, S)`, padded with id 0.
        max_extra_length: int scalar, see `beam_search`.
        max_length: int scalar; where there is no limit, a very large one.
        min_length: int scalar, or `None`.
        target_prefix: int tensor `(B, P)`, padded with id 0, or `None`.
    """

    source_token_ids: Tensor
    max_extra_length: Tensor
    max_length: Tensor
    min_length: Tensor | None = None
    target_prefix: Tensor | None = None


def constraint_tensors(
    source_token_ids: Tensor,
    max_extra_length: int = 50,
    max_length: int | None = None,
    min_length: int = 0,
    target_prefix: Tensor | None = None,
    config: Any = None,
) -> ConstraintTensors:
    """Checks the arguments of a search and makes them tensors.

    Args:
        source_token_ids, max_extra_length, max_length, min_length: see
            `beam_search`.
        target_prefix: see `beam_search`.
        config: `TransformerConfig`, whose vocabularies the ids must be of.
            Defaults to `None`, ids are not checked.

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
    if target_prefix is not None:
        target_prefix = np.asarray(target_prefix)
        _check_prefix(target_prefix, len(source_token_ids), config)
        target_prefix = ops.convert_to_tensor(target_prefix, "int32")
    return ConstraintTensors(
        source_token_ids=ops.convert_to_tensor(source_token_ids, "int32"),
        max_extra_length=_length(max_extra_length),
        max_length=_length(_NO_LIMIT if max_length is None else max_length),
        min_length=_length(min_length) if min_length else None,
        target_prefix=target_prefix,
    )


def _length(value: int) -> Tensor:
    """Makes an int32 scalar to which lengths of sentences can be added."""
    value = max(-_NO_LIMIT, min(value, _NO_LIMIT))
    return ops.convert_to_tensor(value, "int32")


def _check_source(token_ids: Tensor, config: Any) -> None:
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
    # In a graph, or on an accelerator, ids are taken as they are.
    ids = known_values(token_ids)
    if config is None or ids is None or not ids.size:
        return
    size = config.source_vocabulary_size or config.vocabulary_size
    if ids.min() < 0 or ids.max() >= size:
        raise ValueError(
            f"`source_token_ids` must hold ids from 0 to {size - 1}. "
            f"Received: {ids.min()} to {ids.max()}."
        )


def _check_prefix(prefix: np.ndarray, batch_size: int, config: Any) -> None:
    if prefix.ndim != 2 or len(prefix) != batch_size:
        raise ValueError(
            f"`target_prefix` must have shape ({batch_size}, P), a row for "
            f"each source. Received shape: {prefix.shape}."
        )
    is_padding = prefix == 0
    # True before False: an id 0 before another id.
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
