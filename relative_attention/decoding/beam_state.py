"""The state of a beam search, from one step to the next."""

from typing import NamedTuple

from keras import ops

from relative_attention.decoding.active_sentences import ActiveSentences
from relative_attention.decoding.active_sentences import start_active
from relative_attention.decoding.columns import Columns
from relative_attention.decoding.columns import FixedColumns
from relative_attention.decoding.constraints import IMPOSSIBLE
from relative_attention.decoding.start_and_end import first_inputs
from relative_attention.decoding.step_model import StepModel
from relative_attention.layers.cache import fixed_cache
from relative_attention.tensor_type import Tensor


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
    # Of a sentence that is done it is of no use, and any id.
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
        model: `Transformer`, or another `StepModel`.
        source_token_ids: int tensor `(B, S)`.
        limits: int tensor `(B,)`, the longest translation of each sentence.
        num_beams: int `M`.
        columns: `GrowingColumns` or `FixedColumns`, of tokens.
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
        last_token_ids=first_inputs(model, shape),
        ancestors=columns.start(shape) if num_beams > 1 else None,
        finished_token_ids=columns.start(shape),
        finished_scores=ops.full(shape, IMPOSSIBLE, "float32"),
    )
