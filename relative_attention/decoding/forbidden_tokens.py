"""What constraints forbid at a step of a search, as tensors."""

from keras import ops

from relative_attention.decoding.constraints import IMPOSSIBLE
from relative_attention.decoding.constraints import Constraints
from relative_attention.decoding.model_steps import ActiveSentences
from relative_attention.models.config import END_ID
from relative_attention.tensor_type import Tensor


def as_tensors(constraints: Constraints) -> Constraints:
    """Returns the same as int32 tensors."""
    return Constraints(
        *(
            None if value is None else ops.convert_to_tensor(value, "int32")
            for value in constraints
        )
    )


def forbid(
    constraints: Constraints,
    logits: Tensor,
    position: Tensor,
    active: ActiveSentences,
    beam_token_ids: Tensor | None = None,
    size: int = 0,
) -> Tensor:
    """Lowers the logits of the tokens that are not allowed.

    Args:
        constraints: `Constraints`, of tensors.
        logits: float tensor `(A, M, V)`.
        position: int scalar, the position of the token.
        active: `ActiveSentences`.
        beam_token_ids: int tensor `(A, M, p)`, the tokens of each beam so
            far; there may be more columns. Only needed with `size`.
        size: int. No beam repeats a sequence of this many tokens; `0` allows
            repeats.

    Returns:
        The logits, `IMPOSSIBLE` for tokens that are not allowed. The same
        object if there is no constraint.
    """
    token_ids = ops.arange(logits.shape[-1], dtype="int32")
    if constraints.min_lengths is not None:
        is_early = position + 1 < active.gather_active(constraints.min_lengths)
        is_forbidden = is_early[:, None, None] & (token_ids == END_ID)
        logits = ops.where(is_forbidden, IMPOSSIBLE, logits)
    given = logits
    if size:
        is_repeat = repeating_tokens(
            beam_token_ids, position, size, logits.shape[-1]
        )
        logits = ops.where(is_repeat, IMPOSSIBLE, logits)
    if constraints.target_prefix is not None:
        last = ops.shape(constraints.target_prefix)[1] - 1
        forced = ops.take(
            active.gather_active(constraints.target_prefix),
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
