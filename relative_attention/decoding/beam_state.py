"""The state of a beam search, from one step to the next.

Its rows of token ids become a column longer at every step. `GrowingColumns`
have as many columns as steps are done, so that nothing is computed for what is
not there. `FixedColumns` have all from the beginning, for a loop that XLA
compiles, where every tensor keeps its shape.
"""

import dataclasses
from typing import NamedTuple

from keras import ops

from relative_attention.decoding.constraints import IMPOSSIBLE
from relative_attention.decoding.model_steps import ActiveSentences
from relative_attention.decoding.model_steps import StepModel
from relative_attention.decoding.model_steps import start_active
from relative_attention.decoding.model_steps import start_token_id
from relative_attention.layers.cache import fixed_cache
from relative_attention.tensor_type import Tensor


@dataclasses.dataclass(frozen=True)
class GrowingColumns:
    """Columns of the steps that are done, no others."""

    def start(self, shape: tuple[int | Tensor, ...]) -> Tensor:
        """Returns int32 rows `(*shape, 0)` before the first step."""
        return ops.zeros((*shape, 0), "int32")

    def append(self, rows: Tensor, column: Tensor, position: Tensor) -> Tensor:
        """Adds a column at `position`: `(..., p)` -> `(..., p + 1)`."""
        return ops.concatenate([rows, column[..., None]], axis=-1)

    def at(self, rows: Tensor, position: Tensor) -> Tensor:
        """Returns the column at `position`, the last one."""
        return rows[..., -1]

    def pad(self, rows: Tensor) -> Tensor:
        """Returns rows `(B, M, p)` as wide as those with one more column."""
        return ops.pad(rows, ((0, 0), (0, 0), (0, 1)))


@dataclasses.dataclass(frozen=True)
class FixedColumns:
    """All columns that there may be, id 0 where no step has been.

    Args:
        num_positions: int `P`.
    """

    num_positions: int

    def start(self, shape: tuple[int | Tensor, ...]) -> Tensor:
        """Returns int32 rows `(*shape, P)` before the first step."""
        return ops.zeros((*shape, self.num_positions), "int32")

    def append(self, rows: Tensor, column: Tensor, position: Tensor) -> Tensor:
        """Writes a column at `position`: `(..., P)` -> `(..., P)`."""
        positions = ops.arange(self.num_positions, dtype="int32")
        return ops.where(positions == position, column[..., None], rows)

    def at(self, rows: Tensor, position: Tensor) -> Tensor:
        """Returns the column at `position`."""
        return ops.take(rows, position, axis=-1)

    def pad(self, rows: Tensor) -> Tensor:
        """Returns the rows, which are as wide as all others."""
        return rows


Columns = GrowingColumns | FixedColumns


class BeamState(NamedTuple):
    """The state of a beam search of which `p` steps are done.

    Each of the `B` sentences has `M` beams, hypotheses that have not ended,
    and `M` finished ones, which have. Both are sorted, the best first. Until
    there are so many, the rest are impossible: their log-probability or score
    is `IMPOSSIBLE`.
    """

    # === What all sentences share ===
    # The number of steps done, `p`: the position that the next step decodes.
    position: Tensor  # int32 ()
    # The model's cache, of the sentences that are not done.
    active: ActiveSentences

    # === A sentence ===
    # Whether its search is over. Then its rows below stay as they are, but for
    # padding: the length of all token ids is `p`.
    is_done: Tensor  # bool (B,)
    # Whether one of its logits was not finite: nothing found is a translation.
    is_broken: Tensor  # bool (B,)

    # === Its beams ===
    beam_token_ids: Tensor  # int32 (B, M, p)
    # log P of all the tokens of a beam, not divided by a length penalty.
    beam_log_probs: Tensor  # float32 (B, M)
    # What the decoder reads next: the start token, then the last of a beam.
    # Ignored for finished sentences; may hold any id.
    last_token_ids: Tensor  # int32 (B, M)
    # `ancestors[b, m, p]` is the beam that wrote position `p` of the history
    # of beam `m`: the cache is never reordered, so that beam `m` finds there
    # what others wrote. `None` with one beam, which has written all.
    ancestors: Tensor | None  # int32 (B, M, p)

    # === Its finished hypotheses ===
    # Each with its end of sentence, and padded with id 0.
    finished_token_ids: Tensor  # int32 (B, M, p)
    # log P over the length penalty.
    finished_scores: Tensor  # float32 (B, M)


def start_beam_state(
    model: StepModel,
    source_token_ids: Tensor,
    limits: Tensor,
    num_beams: int,
    columns: Columns,
) -> BeamState:
    """Makes the state before the first step.

    Args:
        model: `StepModel`.
        source_token_ids: int tensor `(B, S)`.
        limits: int tensor `(B,)`, the longest translation of each sentence.
        num_beams: int `M`.
        columns: `Columns` of tokens.
    """
    active = start_active(model, source_token_ids)
    if isinstance(columns, FixedColumns):
        num_columns = columns.num_positions * num_beams
        active = active._replace(cache=fixed_cache(active.cache, num_columns))
    shape = (ops.shape(source_token_ids)[0], num_beams)
    # All beams are equal at first: only one may have continuations.
    is_first = ops.arange(num_beams, dtype="int32") == 0
    return BeamState(
        position=ops.zeros((), "int32"),
        active=active,
        is_done=limits <= 0,
        is_broken=ops.zeros_like(limits, "bool"),
        beam_token_ids=columns.start(shape),
        beam_log_probs=ops.where(
            is_first, ops.zeros(shape, "float32"), IMPOSSIBLE
        ),
        last_token_ids=ops.full(shape, start_token_id(model), "int32"),
        ancestors=columns.start(shape) if num_beams > 1 else None,
        finished_token_ids=columns.start(shape),
        finished_scores=ops.full(shape, IMPOSSIBLE, "float32"),
    )
