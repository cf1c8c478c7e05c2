"""The loop that draws translations, on tensors alone."""

import dataclasses
import functools
from typing import NamedTuple

from keras import ops

from relative_attention.decoding.active_sentences import ActiveSentences
from relative_attention.decoding.active_sentences import decode_active
from relative_attention.decoding.active_sentences import drop_done
from relative_attention.decoding.active_sentences import start_active
from relative_attention.decoding.constraint_tensors import ConstraintTensors
from relative_attention.decoding.constraints import Constraints
from relative_attention.decoding.draw_tokens import draw_tokens
from relative_attention.decoding.draw_tokens import tempered_logits
from relative_attention.decoding.gumbel_noise import gumbel_noise
from relative_attention.decoding.start_and_end import END_ID
from relative_attention.decoding.start_and_end import first_inputs
from relative_attention.decoding.step_model import StepModel
from relative_attention.decoding.step_model import prepared
from relative_attention.decoding.while_loop import while_loop
from relative_attention.tensor_type import Tensor


class SampleInputs(NamedTuple):
    """The tensors that sampling starts from.

    Attributes:
        constraints: `ConstraintTensors`, the sources among them.
        keys: int tensor `(B, R, 2)`, see `noise_keys`.
        temperature: float32 scalar.
        top_p: float32 scalar, or `None`.
    """

    constraints: ConstraintTensors
    keys: Tensor
    temperature: Tensor
    top_p: Tensor | None


@dataclasses.dataclass(frozen=True)
class SamplePlan:
    """What stays the same from one step of sampling to the next.

    Attributes:
        model: `Transformer`, or another `StepModel`.
        constraints: `Constraints`.
        keys: int tensor `(B, R, 2)`, of which the noise is a function.
        temperature: float32 scalar.
        top_k: int, or `None`.
        top_p: float32 scalar, or `None`.
    """

    model: StepModel
    constraints: Constraints
    keys: Tensor
    temperature: Tensor
    top_k: int | None
    top_p: Tensor | None


class SampleState(NamedTuple):
    """The state of sampling of which `p` steps are done.

    Each of the `B` sentences has `R` draws, which depend on nothing but their
    own past.
    """

    # The number of steps done, `p`: the position that the next step decodes.
    position: Tensor  # int32 ()
    # The model's cache, of the sentences with a draw that is not done.
    active: ActiveSentences
    # Whether a draw has ended, is at its limit or is no number.
    is_done: Tensor  # bool (B, R)
    # The tokens drawn; id 0 after the end.
    token_ids: Tensor  # int32 (B, R, p)
    # What the decoder reads next: the start token, then the last drawn.
    last_token_ids: Tensor  # int32 (B, R)
    # log P of the tokens under the model, whatever the temperature.
    log_probs: Tensor  # float32 (B, R)


def sample_loop(
    model: StepModel, inputs: SampleInputs, num_results: int, top_k: int | None
) -> dict[str, Tensor]:
    """Runs `sample` on tensors, which may be those of a graph.

    Args:
        model, num_results, top_k: see `sample`.
        inputs: `SampleInputs`.

    Returns:
        Dict of `"token_ids"` and `"scores"`, see `sample`. The score of a draw
        whose logits were not finite is nan.
    """
    constraints = Constraints(inputs.constraints)
    shape = (ops.shape(inputs.keys)[0], num_results)
    plan = SamplePlan(
        model=prepared(model),
        constraints=constraints,
        # So that the number of results is known when the graph is made.
        keys=ops.reshape(inputs.keys, (*shape, 2)),
        temperature=inputs.temperature,
        top_k=top_k,
        top_p=inputs.top_p,
    )
    state = SampleState(
        position=ops.zeros((), "int32"),
        active=start_active(model, inputs.constraints.source_token_ids),
        is_done=ops.broadcast_to((constraints.limits <= 0)[:, None], shape),
        token_ids=ops.zeros((*shape, 0), "int32"),
        last_token_ids=first_inputs(model, shape),
        log_probs=ops.zeros(shape, "float32"),
    )
    state = while_loop(is_not_done, functools.partial(step, plan), state)
    return {"token_ids": state.token_ids, "scores": state.log_probs}


def is_not_done(state: SampleState) -> Tensor:
    """Tells whether any draw is left to go on with, a bool scalar."""
    return ops.logical_not(ops.all(state.is_done))


def step(plan: SamplePlan, state: SampleState) -> SampleState:
    """Draws one more token for every draw that is not done.

    Args:
        plan: `SamplePlan`.
        state: `SampleState` of `p` steps.

    Returns:
        `SampleState` of `p + 1` steps.
    """
    position = state.position
    logits, active = decode_active(
        plan.model, state.active, state.last_token_ids, position
    )  # (A, R, V)
    token_ids = draw_tokens(
        tempered_logits(
            logits,
            plan.temperature,
            lambda logits: plan.constraints.forbid(logits, position, active),
        ),
        gumbel_noise(
            active.gather_active(plan.keys), position, logits.shape[-1]
        ),
        plan.top_k,
        plan.top_p,
    )
    # log P(y_t | y_1 .. y_(t-1), x) = logit(y_t) - log sum of exp(logits),
    # of the model's own logits.
    log_probs = ops.take_along_axis(logits, token_ids[..., None], axis=-1)
    log_probs = log_probs[..., 0] - ops.logsumexp(logits, axis=-1)
    # From here on every tensor is of all B sentences again.
    token_ids = active.scatter_to_batch(token_ids)
    token_ids = ops.where(state.is_done, 0, token_ids)
    gained = active.scatter_to_batch(log_probs)
    gained = ops.where(state.is_done, 0.0, gained)
    is_done = (
        state.is_done
        # Of logits that are no numbers.
        | ops.isnan(gained)
        | ops.equal(token_ids, END_ID)
        | (position + 1 >= plan.constraints.limits)[:, None]
    )
    return SampleState(
        position=position + 1,
        # The model works for all draws of a sentence until the last is done.
        active=drop_done(active, ops.all(is_done, axis=1)),
        is_done=is_done,
        token_ids=ops.concatenate(
            [state.token_ids, token_ids[..., None]], axis=2
        ),
        last_token_ids=token_ids,
        log_probs=state.log_probs + gained,
    )
