"""Beam search with GNMT's length penalty."""

import dataclasses

import keras
import numpy as np
from keras import ops

from relative_attention.argument_checks import checked_at_least
from relative_attention.decoding.beam_state import BeamState
from relative_attention.decoding.beam_state import Columns
from relative_attention.decoding.beam_state import FixedColumns
from relative_attention.decoding.beam_state import GrowingColumns
from relative_attention.decoding.beam_state import start_beam_state
from relative_attention.decoding.compiled import compiled_functions
from relative_attention.decoding.compiled import fixed_while_loop
from relative_attention.decoding.compiled import run_compiled
from relative_attention.decoding.compiled import while_loop
from relative_attention.decoding.constraints import IMPOSSIBLE
from relative_attention.decoding.constraints import Constraints
from relative_attention.decoding.constraints import check_length_penalty
from relative_attention.decoding.constraints import check_num_beams
from relative_attention.decoding.constraints import make_constraints
from relative_attention.decoding.continuations import Continuations
from relative_attention.decoding.continuations import best_continuations
from relative_attention.decoding.continuations import take_beams
from relative_attention.decoding.ensemble import Ensemble
from relative_attention.decoding.model_steps import END_ID
from relative_attention.decoding.model_steps import ActiveSentences
from relative_attention.decoding.model_steps import StepModel
from relative_attention.decoding.model_steps import decode_active
from relative_attention.decoding.model_steps import drop_done
from relative_attention.decoding.model_steps import prepared
from relative_attention.decoding.translation import alignment
from relative_attention.decoding.translation import check_attention
from relative_attention.decoding.translation import check_numbers
from relative_attention.models.transformer import Transformer
from relative_attention.tensor_type import Tensor

# On JAX lengths are rounded up to a multiple of this, numbers of sentences to
# a power of two: a search takes as long for a few more, and a compilation far
# longer.
_ROUND_TO = 32


def beam_search(
    model: StepModel,
    source_token_ids: Tensor,
    num_beams: int = 4,
    length_penalty: float = 0.6,
    max_extra_length: int = 50,
    num_results: int = 1,
    max_length: int | None = None,
    min_length: int = 0,
    target_prefix: Tensor | None = None,
    return_attention: bool = False,
) -> dict[str, Tensor]:
    """Finds the most probable translations by a beam search.

    A hypothesis of `len` tokens, the end of sentence included, scores
    `log P / ((5 + len) / 6)^length_penalty` (Wu et al. 2016, eq. 14). Each
    step looks at the `2 * num_beams` best continuations of the `num_beams`
    beams, the hypotheses that have not ended (with one beam, at the best one).
    Those that end join the finished hypotheses; the best `num_beams` of the
    others become the beams. A sentence is done when no beam can still overtake
    its worst result, or at its longest length: its own source length plus
    `max_extra_length`, or `max_length`. What a sentence gets does not depend
    on the others in the batch.

    # Differs from tensor2tensor: there the length limit, and with several
    # results the end of the search, depend on the whole batch.

    Args:
        model: `Transformer`, `Ensemble`, or anything with its `start_cache`,
            `decode_step` and `merge_cache`.
        source_token_ids: int tensor `(B, S)`, each row ending with id 1 and
            padded with id 0.
        num_beams: int. Beams a sentence; `1` is greedy search. Defaults to
            `4`.
        length_penalty: float. Exponent alpha; `0.0` compares log-probability
            alone. Defaults to `0.6`.
        max_extra_length: int. How much longer than its source a translation
            may be, in tokens; below zero, how much shorter it must be.
            Defaults to `50`.
        num_results: int. Translations a sentence, at most `num_beams`.
            Defaults to `1`.
        max_length: int. The longest translation of any source, in tokens.
            Defaults to `None`, no limit but `max_extra_length`.
        min_length: int. The shortest translation, in tokens, the end of
            sentence included; the longest length takes precedence. Defaults
            to `0`.
        target_prefix: int array `(B, P)`, padded with id 0: the tokens that
            each translation begins with. They count in its score, and it may
            be one longer than they are whatever the limit. Defaults to
            `None`, no such tokens.
        return_attention: bool. Also return what the translations attend to.
            Defaults to `False`.

    Returns:
        Dict of `"token_ids"`, int32 `(B, num_results, T)`, best first, each
        ending with id 1 and padded with id 0, and `"scores"`, float32
        `(B, num_results)`. A sentence none of whose hypotheses ended gets
        its beams, which lack the id 1, and their log-probabilities without
        penalty; where some ended, but fewer than `num_results`, the rest
        are rows of zeros with the score -1e7. With `return_attention` also
        `"attention"`, float32 `(B, num_results, L, N, T, S)`: the
        cross-attention scores by decoder block and head, from each token to
        the source.

    Raises:
        ValueError: if a number is out of range, or `target_prefix` has
            another number of rows, an id beyond the vocabulary, an id 1, or
            an id after an id 0.
        InputError: if the model gives logits that are not finite; the error
            names the weight, or the dtype. Or if `return_attention` is asked
            of a model that has none to show, as an `Ensemble`.

    Reference:
     - [Wu et al., 2016](https://arxiv.org/abs/1609.08144), section 7
    """
    num_beams = checked_at_least("num_beams", num_beams, 1)
    check_num_beams(model, num_beams)
    num_results = checked_at_least("num_results", num_results, 1)
    if num_results > num_beams:
        raise ValueError(
            f"`num_results` must be between 1 and `num_beams`, {num_beams}. "
            f"Received: num_results={num_results}."
        )
    length_penalty = check_length_penalty(length_penalty)
    if return_attention:
        check_attention(model)
    constraints = make_constraints(
        source_token_ids,
        max_extra_length=max_extra_length,
        max_length=max_length,
        min_length=min_length,
        target_prefix=target_prefix,
        config=getattr(model, "config", None),
    )
    inputs = (constraints, ops.convert_to_tensor(length_penalty, "float32"))
    sizes = {"num_beams": num_beams, "num_results": num_results}
    is_on_jax = keras.backend.backend() == "jax"
    # XLA wants fixed shapes, which only these caches can have.
    if is_on_jax and isinstance(model, Transformer | Ensemble):
        results = _search_on_jax(model, inputs, **sizes)
    else:
        results = run_compiled(beam_search_loop, model, inputs, **sizes)
    check_numbers(model, results["scores"])
    if return_attention:
        results["attention"] = alignment(
            model, constraints.source_token_ids, results["token_ids"]
        )
    return results


def beam_search_loop(
    model: StepModel,
    inputs: tuple[Constraints, Tensor],
    num_beams: int,
    num_results: int,
    columns: Columns = GrowingColumns(),  # noqa: B008 (it has no state)
) -> dict[str, Tensor]:
    """Runs `beam_search` on tensors, which may be those of a graph.

    Args:
        model, num_beams, num_results: see `beam_search`.
        inputs: pair of `Constraints`, the sources among them, and the length
            penalty, a float32 scalar.
        columns: `GrowingColumns`; or `FixedColumns` with at least as many
            positions as the longest translation may have.

    Returns:
        Dict of `"token_ids"` and `"scores"`, see `beam_search`. Scores of a
        sentence whose logits were not finite are nan. With `FixedColumns` also
        `"num_steps"`, the number of columns in use.
    """
    constraints, alpha = inputs
    search = _BeamSearch(
        prepared(model), constraints, alpha, num_beams, num_results, columns
    )
    state = start_beam_state(
        model,
        constraints.source_token_ids,
        constraints.limits,
        num_beams,
        columns,
    )
    is_fixed = isinstance(columns, FixedColumns)
    loop = fixed_while_loop if is_fixed else while_loop
    state = loop(_is_not_done, search.step, state)
    results = _results(state, num_results)
    return {**results, "num_steps": state.position} if is_fixed else results


def _is_not_done(state: BeamState) -> Tensor:
    """Tells whether any sentence is left to search for, a bool scalar."""
    return ops.logical_not(ops.all(state.is_done))


@dataclasses.dataclass(frozen=True)
class _BeamSearch:
    """One beam search: what stays the same from step to step, and a step."""

    model: StepModel
    constraints: Constraints
    alpha: Tensor  # float32 (), the exponent of the length penalty
    num_beams: int  # M
    num_results: int  # R
    columns: Columns  # of tokens

    def step(self, state: BeamState) -> BeamState:
        """Makes each beam a token longer: `p` steps -> `p + 1` steps."""
        ancestors = self._with_own_index(state)
        continuations, active = self._continue_beams(state, ancestors)
        sequences = self.columns.append(
            take_beams(state.beam_token_ids, continuations.parents),
            continuations.token_ids,
            state.position,
        )  # (B, C, p + 1)
        length = state.position + 1
        # Of the continuations those that do not end become the beams ...
        is_end = ops.equal(continuations.token_ids, END_ID)
        beam_log_probs, chosen = ops.top_k(
            ops.where(is_end, IMPOSSIBLE, continuations.log_probs),
            self.num_beams,
        )
        beam_token_ids = take_beams(sequences, chosen)
        if ancestors is not None:
            parents = take_beams(continuations.parents, chosen)
            # A beam takes over the history of the beam that it continues.
            ancestors = take_beams(ancestors, parents)
        # ... and those that end compete with what had ended before.
        finished_scores, finished_token_ids = self._best_finished(
            state, continuations, sequences
        )
        is_broken = ops.where(
            state.is_done, state.is_broken, continuations.is_broken
        )
        is_done = (
            state.is_done
            # A sentence whose logits are not finite is given up.
            | is_broken
            | self._nothing_can_overtake(beam_log_probs, finished_scores)
            | (length >= self.constraints.limits)
        )
        # Dropped rows would change the shape of the cache.
        if not isinstance(self.columns, FixedColumns):
            active = drop_done(active, is_done)
        # A sentence that was done before the step keeps its results.
        was_done = state.is_done[:, None]
        return BeamState(
            position=length,
            active=active,
            is_done=is_done,
            is_broken=is_broken,
            beam_token_ids=ops.where(
                was_done[..., None],
                self.columns.pad(state.beam_token_ids),
                beam_token_ids,
            ),
            beam_log_probs=ops.where(
                was_done, state.beam_log_probs, beam_log_probs
            ),
            last_token_ids=self.columns.at(beam_token_ids, state.position),
            ancestors=ancestors,
            finished_token_ids=ops.where(
                was_done[..., None],
                self.columns.pad(state.finished_token_ids),
                finished_token_ids,
            ),
            finished_scores=ops.where(
                was_done, state.finished_scores, finished_scores
            ),
        )

    def _with_own_index(self, state: BeamState) -> Tensor | None:
        """Adds a position, which each beam has written itself.

        `(B, M, p)` -> `(B, M, p + 1)`.
        """
        if state.ancestors is None:
            return None
        batch_size, num_beams, _ = ops.shape(state.ancestors)
        beams = ops.arange(num_beams, dtype="int32")[None]
        return self.columns.append(
            state.ancestors,
            ops.broadcast_to(beams, (batch_size, num_beams)),
            state.position,
        )

    def _continue_beams(
        self, state: BeamState, ancestors: Tensor | None
    ) -> tuple[Continuations, ActiveSentences]:
        """Decodes one position, and finds how each sentence may continue.

        The `Continuations` are those of all `B` sentences; a sentence that is
        done has another's.
        """
        logits, active = decode_active(
            self.model,
            state.active,
            state.last_token_ids,
            state.position,
            ancestors,
            merges=not isinstance(self.columns, FixedColumns),
        )  # (A, M, V)
        continuations = best_continuations(
            active.gather_active(state.beam_log_probs),
            logits,
            self.constraints.forbid(logits, state.position, active),
            # `C`. At most `M` of `2 * M` end, since each beam ends in one way
            # only: `M` are left. One beam is greedy search, which ends when
            # the best token is the end.
            1 if self.num_beams == 1 else 2 * self.num_beams,
        )
        in_batch = map(active.scatter_to_batch, continuations)
        return Continuations(*in_batch), active

    def _best_finished(
        self, state: BeamState, continuations: Continuations, sequences: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Chooses the best of what had ended before and what ends now.

        Args:
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
        scores = continuations.log_probs / length_penalty_of(
            state.position + 1, self.alpha
        )
        scores = ops.where(ends_now, scores, IMPOSSIBLE)
        scores, chosen = ops.top_k(
            ops.concatenate([state.finished_scores, scores], axis=1),
            self.num_beams,
        )
        sequences = ops.concatenate(
            [self.columns.pad(state.finished_token_ids), sequences], axis=1
        )
        return scores, take_beams(sequences, chosen)

    def _nothing_can_overtake(
        self, beam_log_probs: Tensor, finished_scores: Tensor
    ) -> Tensor:
        """Tells of each sentence whether its worst result is safe: `(B,)`."""
        # The best score that a beam can still get: log P only falls, and no
        # length penalty is greater than that of the limit, as alpha >= 0.
        bound = ops.max(beam_log_probs, axis=1) / length_penalty_of(
            self.constraints.limits, self.alpha
        )
        worst_result = finished_scores[:, self.num_results - 1]
        return worst_result >= bound


def length_penalty_of(length: Tensor, alpha: Tensor) -> Tensor:
    """Computes the length penalty of hypotheses.

    A log-probability is a sum over tokens, so longer hypotheses have lower
    ones. GNMT divides it by a penalty that grows with the length `|Y|`:

        score(Y, X) = log P(Y | X) / lp(Y)
        lp(Y) = (5 + |Y|)^alpha / (5 + 1)^alpha

    Args:
        length: int tensor, the number of tokens, the end of sentence included.
        alpha: float scalar. With `0.0` every penalty is 1.

    Reference:
     - [Wu et al., 2016](https://arxiv.org/abs/1609.08144), eq. 14
    """
    length = ops.cast(length, "float32")
    # Wu et al. (2016), eq. 14; the coverage penalty cp(X; Y) is left out.
    return ops.power((5.0 + length) / 6.0, alpha)


def _results(state: BeamState, num_results: int) -> dict[str, Tensor]:
    """Takes the finished hypotheses or, where nothing ended, the beams."""
    is_finished = state.finished_scores > IMPOSSIBLE / 2  # (B, M)
    has_finished = is_finished[:, :1]
    token_ids = ops.where(
        has_finished[..., None],
        # Rows where nothing ended may hold the ids of an impossible beam.
        ops.where(is_finished[..., None], state.finished_token_ids, 0),
        state.beam_token_ids,
    )
    scores = ops.where(
        has_finished, state.finished_scores, state.beam_log_probs
    )
    scores = ops.where(state.is_broken[:, None], np.nan, scores)
    return {
        "token_ids": token_ids[:, :num_results],
        "scores": scores[:, :num_results],
    }


# === On JAX ===


def _search_on_jax(
    model: Transformer | Ensemble,
    inputs: tuple[Constraints, Tensor],
    num_beams: int,
    num_results: int,
) -> dict[str, Tensor]:
    """Runs the loop compiled by XLA, once for each of a few shapes."""
    import jax

    constraints, alpha = inputs
    batch_size = constraints.limits.shape[0]
    if not batch_size:
        return beam_search_loop(model, inputs, num_beams, num_results)
    longest = int(ops.convert_to_numpy(constraints.limits).max())
    num_positions = _round_up(max(longest, 1))
    inputs = (Constraints(*map(_rounded, constraints)), alpha)
    functions = compiled_functions(model)
    key = (beam_search_loop, num_beams, num_results, num_positions)
    weights = model.weights
    if key not in functions:

        def search(
            values: list[Tensor], inputs: tuple[Constraints, Tensor]
        ) -> dict[str, Tensor]:
            # As arguments: else the weights would be constants.
            with keras.StatelessScope(list(zip(weights, values))):
                return beam_search_loop(
                    model,
                    inputs,
                    num_beams,
                    num_results,
                    FixedColumns(num_positions),
                )

        functions[key] = jax.jit(search)
    results = functions[key]([weight.value for weight in weights], inputs)
    width = int(results.pop("num_steps"))
    return {
        "token_ids": results["token_ids"][:batch_size, :, :width],
        "scores": results["scores"][:batch_size],
    }


def _rounded(values: Tensor | None) -> Tensor | None:
    """Pads `(B, S)` with id 0, and repeats the last row of `(B, ...)`.

    The sentences that are added are the last one, and done when it is.
    """
    if values is None:
        return None
    rows = ops.convert_to_numpy(values)
    size = rows.shape[0]
    missing = (1 << (size - 1).bit_length()) - size
    widths = [(0, _round_up(width) - width) for width in rows.shape[1:]]
    rows = np.pad(rows, ((0, 0), *widths))
    rows = np.pad(rows, ((0, missing), *((0, 0) for _ in widths)), mode="edge")
    return ops.convert_to_tensor(rows, "int32")


def _round_up(length: int) -> int:
    return -(-length // _ROUND_TO) * _ROUND_TO
