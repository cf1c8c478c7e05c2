"""The loop of a beam search, on tensors alone."""

import dataclasses
import functools
from typing import NamedTuple

import numpy as np
from keras import ops

from relative_attention.decoding.active_sentences import ActiveSentences
from relative_attention.decoding.active_sentences import decode_active
from relative_attention.decoding.active_sentences import drop_done
from relative_attention.decoding.beam_state import BeamState
from relative_attention.decoding.beam_state import start_beam_state
from relative_attention.decoding.columns import Columns
from relative_attention.decoding.columns import FixedColumns
from relative_attention.decoding.columns import GrowingColumns
from relative_attention.decoding.constraint_tensors import ConstraintTensors
from relative_attention.decoding.constraints import IMPOSSIBLE
from relative_attention.decoding.constraints import Constraints
from relative_attention.decoding.continuations import Continuations
from relative_attention.decoding.continuations import best_continuations
from relative_attention.decoding.continuations import take_beams
from relative_attention.decoding.length_penalty import length_penalty
from relative_attention.decoding.start_and_end import END_ID
from relative_attention.decoding.step_model import StepModel
from relative_attention.decoding.step_model import prepared
from relative_attention.decoding.while_loop import fixed_while_loop
from relative_attention.decoding.while_loop import while_loop
from relative_attention.tensor_type import Tensor


class BeamInputs(NamedTuple):
    """The tensors that a beam search starts from.

    Attributes:
        constraints: `ConstraintTensors`, the sources among them.
        length_penalty: float32 scalar, the exponent alpha.
    """

    constraints: ConstraintTensors
    length_penalty: Tensor


@dataclasses.dataclass(frozen=True)
class BeamPlan:
    """What stays the same from one step of a beam search to the next.

    Attributes:
        model: `Transformer`, or another `StepModel`.
        constraints: `Constraints`.
        alpha: float32 scalar, the exponent of the length penalty.
        penalty_at_limit: float32 tensor `(B,)`, the length penalty of the
            longest translation of each sentence.
        num_beams: int `M`.
        num_continuations: int `C`, looked at for each sentence at a step.
        num_results: int `R`.
        columns: `GrowingColumns` or `FixedColumns`, of tokens.
    """

    model: StepModel
    constraints: Constraints
    alpha: Tensor
    penalty_at_limit: Tensor
    num_beams: int
    num_continuations: int
    num_results: int
    columns: Columns


def beam_search_loop(
    model: StepModel,
    inputs: BeamInputs,
    num_beams: int,
    num_results: int,
    columns: Columns = GrowingColumns(),  # noqa: B008 (it has no state)
) -> dict[str, Tensor]:
    """Runs `beam_search` on tensors, which may be those of a graph.

    Args:
        model, num_beams, num_results: see `beam_search`.
        inputs: `BeamInputs`.
        columns: `GrowingColumns`; or `FixedColumns`, on JAX, for at least as
            many positions as the longest translation may have.

    Returns:
        Dict of `"token_ids"` and `"scores"`, see `beam_search`. Scores of a
        sentence whose logits were not finite are nan. With `FixedColumns` also
        `"num_steps"`, of which there are token ids.
    """
    constraints = Constraints(inputs.constraints)
    plan = BeamPlan(
        model=prepared(model),
        constraints=constraints,
        alpha=inputs.length_penalty,
        penalty_at_limit=length_penalty(
            constraints.limits, inputs.length_penalty
        ),
        num_beams=num_beams,
        # At most `M` of `2 * M` continuations end, since each beam ends in one
        # way only: `M` are left to go on. One beam is greedy search, which
        # ends when the best token is the end.
        num_continuations=1 if num_beams == 1 else 2 * num_beams,
        num_results=num_results,
        columns=columns,
    )
    state = start_beam_state(
        model,
        inputs.constraints.source_token_ids,
        constraints.limits,
        num_beams,
        columns,
    )
    one_step = functools.partial(step, plan)
    if isinstance(columns, FixedColumns):
        state = fixed_while_loop(is_not_done, one_step, state)
        return {**_results(state, num_results), "num_steps": state.position}
    state = while_loop(is_not_done, one_step, state)
    return _results(state, num_results)


def is_not_done(state: BeamState) -> Tensor:
    """Tells whether any sentence is left to search for, a bool scalar."""
    return ops.logical_not(ops.all(state.is_done))


def step(plan: BeamPlan, state: BeamState) -> BeamState:
    """Runs one step of a beam search: each beam becomes a token longer.

    Args:
        plan: `BeamPlan`.
        state: `BeamState` of `p` steps.

    Returns:
        `BeamState` of `p + 1` steps.
    """
    ancestors = _with_own_index(plan, state)
    continuations, active = _continue_beams(plan, state, ancestors)
    sequences = plan.columns.append(
        take_beams(state.beam_token_ids, continuations.parents),
        continuations.token_ids,
        state.position,
    )  # (B, C, p + 1)
    length = state.position + 1
    # Of the continuations those that go on become the beams ...
    beam_log_probs, chosen = _best_unfinished(continuations, plan.num_beams)
    beam_token_ids = take_beams(sequences, chosen)
    if ancestors is not None:
        parents = take_beams(continuations.parents, chosen)
        # A beam takes over the history of the beam that it continues.
        ancestors = take_beams(ancestors, parents)
    # ... and those that end compete with what had ended before.
    finished_scores, finished_token_ids = _best_finished(
        plan, state, continuations, sequences
    )
    is_broken = ops.where(
        state.is_done, state.is_broken, continuations.is_broken
    )
    is_done = (
        state.is_done
        # Logits that are not finite: the sentence is given up.
        | is_broken
        | _nothing_can_overtake(plan, beam_log_probs, finished_scores)
        | (length >= plan.constraints.limits)
    )
    # A sentence that was done before the step keeps its results.
    return BeamState(
        position=length,
        # Dropped, rows would change the shape of the cache.
        active=active
        if isinstance(plan.columns, FixedColumns)
        else drop_done(active, is_done),
        is_done=is_done,
        is_broken=is_broken,
        beam_token_ids=_keep_sequences(
            plan, state.is_done, state.beam_token_ids, beam_token_ids
        ),
        beam_log_probs=_keep(
            state.is_done, state.beam_log_probs, beam_log_probs
        ),
        last_token_ids=plan.columns.at(beam_token_ids, state.position),
        ancestors=ancestors,
        finished_token_ids=_keep_sequences(
            plan, state.is_done, state.finished_token_ids, finished_token_ids
        ),
        finished_scores=_keep(
            state.is_done, state.finished_scores, finished_scores
        ),
    )


def _continue_beams(
    plan: BeamPlan, state: BeamState, ancestors: Tensor | None
) -> tuple[Continuations, ActiveSentences]:
    """Decodes one position, and finds how each sentence may go on.

    Returns:
        Pair of `Continuations` of all `B` sentences, where those of a sentence
        that is done are another's, and `ActiveSentences`.
    """
    logits, active = decode_active(
        plan.model,
        state.active,
        state.last_token_ids,
        state.position,
        ancestors,
        merges=not isinstance(plan.columns, FixedColumns),
    )  # (A, M, V)
    continuations = best_continuations(
        active.gather_active(state.beam_log_probs),
        logits,
        plan.constraints.forbid(logits, state.position, active),
        plan.num_continuations,
    )
    return Continuations(*map(active.scatter_to_batch, continuations)), active


def _with_own_index(plan: BeamPlan, state: BeamState) -> Tensor | None:
    """Adds a position, which each beam has written itself.

    `(B, M, p)` -> `(B, M, p + 1)`.
    """
    if state.ancestors is None:
        return None
    batch_size, num_beams, _ = ops.shape(state.ancestors)
    beams = ops.arange(num_beams, dtype="int32")[None]
    return plan.columns.append(
        state.ancestors,
        ops.broadcast_to(beams, (batch_size, num_beams)),
        state.position,
    )


def _best_unfinished(
    continuations: Continuations, num_beams: int
) -> tuple[Tensor, Tensor]:
    """Chooses the best continuations that do not end.

    Returns:
        Pair of log-probabilities and indices among the continuations, `(B, M)`
        each.
    """
    is_end = ops.equal(continuations.token_ids, END_ID)
    return ops.top_k(
        ops.where(is_end, IMPOSSIBLE, continuations.log_probs), num_beams
    )


def _best_finished(
    plan: BeamPlan,
    state: BeamState,
    continuations: Continuations,
    sequences: Tensor,
) -> tuple[Tensor, Tensor]:
    """Chooses the best of what had ended before and what ends now.

    Args:
        plan: `BeamPlan`.
        state: `BeamState` before the step.
        continuations: `Continuations`, of all sentences.
        sequences: int tensor `(B, C, p + 1)`, their token ids.

    Returns:
        Pair of scores `(B, M)` and token ids `(B, M, p + 1)`.
    """
    # What continues an impossible hypothesis stays impossible.
    ends_now = ops.logical_and(
        ops.equal(continuations.token_ids, END_ID),
        continuations.log_probs > IMPOSSIBLE / 2,
    )
    # Wu et al. (2016), eq. 14: score(Y, X) = log P(Y | X) / lp(Y).
    scores = continuations.log_probs / length_penalty(
        state.position + 1, plan.alpha
    )
    scores, chosen = ops.top_k(
        ops.concatenate(
            [
                state.finished_scores,
                ops.where(ends_now, scores, IMPOSSIBLE),
            ],
            axis=1,
        ),
        plan.num_beams,
    )
    sequences = ops.concatenate(
        [plan.columns.pad(state.finished_token_ids), sequences], axis=1
    )
    return scores, take_beams(sequences, chosen)


def _nothing_can_overtake(
    plan: BeamPlan, beam_log_probs: Tensor, finished_scores: Tensor
) -> Tensor:
    """Tells whether no beam can end with a score above the worst result's.

    Returns:
        Bool tensor `(B,)`.
    """
    # The best score that a beam can still get: log P only falls, and no
    # length penalty is greater than that of the limit, as alpha is at least 0.
    bound = ops.max(beam_log_probs, axis=1) / plan.penalty_at_limit
    worst_result = finished_scores[:, plan.num_results - 1]
    return worst_result >= bound


def _keep(is_done: Tensor, before: Tensor, after: Tensor) -> Tensor:
    """Takes `(B, M)` of before the step for sentences that were done then."""
    return ops.where(is_done[:, None], before, after)


def _keep_sequences(
    plan: BeamPlan, is_done: Tensor, before: Tensor, after: Tensor
) -> Tensor:
    """As `_keep`: of `(B, M, p)` and `(B, M, p + 1)`."""
    return ops.where(is_done[:, None, None], plan.columns.pad(before), after)


def _results(state: BeamState, num_results: int) -> dict[str, Tensor]:
    """Takes the finished hypotheses or, where nothing ended, the beams."""
    has_finished = state.finished_scores[:, 0] > IMPOSSIBLE / 2
    token_ids = ops.where(
        has_finished[:, None, None],
        state.finished_token_ids,
        state.beam_token_ids,
    )
    scores = ops.where(
        has_finished[:, None], state.finished_scores, state.beam_log_probs
    )
    scores = ops.where(state.is_broken[:, None], np.nan, scores)
    return {
        "token_ids": token_ids[:, :num_results],
        "scores": scores[:, :num_results],
    }
