"""Beam search with GNMT's length penalty, over the steps of a model.

`search_by_steps` runs a loop of steps over a typed state (`BeamState`);
`searcher` has checked its arguments. A step decodes a position, finds the best
continuations of the beams, and separates those that end from those that
continue.
"""

import dataclasses
import math
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from relative_attention.decoding.compiled import compiled_functions
from relative_attention.decoding.compiled import run_compiled
from relative_attention.decoding.compiled import take_rows
from relative_attention.decoding.compiled import while_loop
from relative_attention.decoding.constraints import IMPOSSIBLE
from relative_attention.decoding.constraints import Constraints
from relative_attention.decoding.ensemble import Ensemble
from relative_attention.decoding.forbidden_tokens import as_tensors
from relative_attention.decoding.forbidden_tokens import forbid
from relative_attention.decoding.model_steps import ActiveSentences
from relative_attention.decoding.model_steps import StepModel
from relative_attention.decoding.model_steps import check_numbers
from relative_attention.decoding.model_steps import cross_attention
from relative_attention.decoding.model_steps import decode_active
from relative_attention.decoding.model_steps import drop_done
from relative_attention.decoding.model_steps import prepared
from relative_attention.decoding.model_steps import start_active
from relative_attention.decoding.model_steps import start_token_id
from relative_attention.layers.cache import fixed_cache
from relative_attention.models.config import END_ID
from relative_attention.models.transformer import Transformer
from relative_attention.ops.backend import prefers_own_kernels
from relative_attention.tensor_type import Tensor

# On JAX, lengths are rounded up to a multiple of this, and numbers of sentences
# to a power of two. The extra ones cost little; a compilation takes far longer.
_ROUND_TO = 32
# Below any logit, including impossible ones.
_LOWEST = -1e30


def search_by_steps(
    model: StepModel,
    constraints: Constraints,
    length_penalty: float,
    num_beams: int,
    num_results: int,
    no_repeat_ngram: int,
    return_attention: bool,
) -> dict[str, Tensor]:
    """Runs a search whose arguments `beam_search` has checked."""
    constraints = as_tensors(constraints)
    inputs = (constraints, ops.convert_to_tensor(length_penalty, "float32"))
    sizes = {
        "num_beams": num_beams,
        "num_results": num_results,
        "no_repeat_ngram": no_repeat_ngram,
    }
    is_on_jax = keras.backend.backend() == "jax"
    # XLA needs fixed shapes, which only these caches can have.
    if is_on_jax and isinstance(model, Transformer | Ensemble):
        results = _search_on_jax(model, inputs, **sizes)
    else:
        results = run_compiled(beam_search_loop, model, inputs, **sizes)
    check_numbers(model, results["scores"])
    if return_attention:
        results["attention"] = cross_attention(
            model, constraints.source_token_ids, results["token_ids"]
        )
    return results


# === The state of a search, from one step to the next ===


@dataclasses.dataclass(frozen=True)
class Columns:
    """Rows of token ids that get one token longer at every step.

    Without a number of positions, a row has one column per step so far, so
    nothing is computed for missing columns. With `P` positions it has all
    columns from the start, with id 0 for later steps, so that no tensor changes
    its shape: XLA compiles such a loop.

    Args:
        num_positions: int `P`, at least the longest length of a translation,
            or `None`.
    """

    num_positions: int | None = None

    @property
    def is_fixed(self) -> bool:
        """Whether no row changes its shape."""
        return self.num_positions is not None

    def start(self, shape: tuple[int | Tensor, ...]) -> Tensor:
        """Returns int32 rows `(*shape, 0)`, or `(*shape, P)` of zeros."""
        return ops.zeros((*shape, self.num_positions or 0), "int32")

    def append(self, rows: Tensor, column: Tensor, position: Tensor) -> Tensor:
        """Writes a column at `position`: `(..., p)` -> `(..., p + 1)`."""
        column = column[..., None]
        if not self.is_fixed:
            return ops.concatenate([rows, column], axis=-1)
        positions = ops.arange(self.num_positions, dtype="int32")
        return ops.where(positions == position, column, rows)

    def at(self, rows: Tensor, position: Tensor) -> Tensor:
        """Returns the column at `position`, the last one written."""
        if not self.is_fixed:
            return rows[..., -1]
        return ops.take(rows, position, axis=-1)

    def pad(self, rows: Tensor) -> Tensor:
        """Returns rows `(B, M, p)` as wide as those with one more column."""
        if self.is_fixed:
            return rows
        return ops.pad(rows, ((0, 0), (0, 0), (0, 1)))


class BeamState(NamedTuple):
    """The state of a beam search after `p` steps.

    Each of the `B` sentences has `M` beams, hypotheses that have not ended,
    and `M` finished ones, which have. Both are sorted, the best first. Until
    there are `M`, the rest are impossible: their log-probability or score is
    `IMPOSSIBLE`.
    """

    # === What all sentences share ===
    # The number of steps done, `p`: the position that the next step decodes.
    position: Tensor  # int32 ()
    # The model's cache of the active sentences.
    active: ActiveSentences

    # === A sentence ===
    # Whether its search is over. Then its rows below only change by padding:
    # all token ids have length `p`.
    is_done: Tensor  # bool (B,)
    # Whether one of its logits was not finite: no result is a translation.
    is_broken: Tensor  # bool (B,)

    # === Its beams ===
    beam_token_ids: Tensor  # int32 (B, M, p)
    # log P of all the tokens of a beam, not divided by a length penalty.
    beam_log_probs: Tensor  # float32 (B, M)
    # What the decoder reads next: the start token, then the last of a beam.
    # Ignored for finished sentences; may hold any id.
    last_token_ids: Tensor  # int32 (B, M)
    # `ancestors[b, m, p]` is the beam that wrote position `p` of the history
    # of beam `m`: the cache is never reordered, so the history of beam `m` is
    # in the columns of other beams. `None` with one beam, which wrote all.
    ancestors: Tensor | None  # int32 (B, M, p)

    # === Its finished hypotheses ===
    # Each with its end of sentence, and padded with id 0.
    finished_token_ids: Tensor  # int32 (B, M, p)
    # log P over the length penalty.
    finished_scores: Tensor  # float32 (B, M)


def _start_state(
    model: StepModel, constraints: Constraints, num_beams: int, columns: Columns
) -> BeamState:
    """Makes the state before the first step."""
    source_token_ids, limits = constraints[:2]
    active = start_active(model, source_token_ids)
    if columns.num_positions is not None:
        num_columns = columns.num_positions * num_beams
        active = active._replace(cache=fixed_cache(active.cache, num_columns))
    shape = (ops.shape(source_token_ids)[0], num_beams)
    # All beams are equal at first, so only one may have continuations.
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


# === The loop, and a step of it ===


def beam_search_loop(
    model: StepModel,
    inputs: tuple[Constraints, Tensor],
    num_beams: int,
    num_results: int,
    columns: Columns = Columns(),  # noqa: B008 (it has no state)
    no_repeat_ngram: int = 0,
) -> dict[str, Tensor]:
    """Runs `beam_search` on tensors, which may be those of a graph.

    Args:
        model, num_beams, num_results, no_repeat_ngram: see `beam_search`.
        inputs: pair of `Constraints`, the sources among them, and the length
            penalty, a float32 scalar.
        columns: `Columns` of token ids.

    Returns:
        Dict of `"token_ids"` and `"scores"`, see `beam_search`. Scores of a
        sentence whose logits were not finite are nan. With fixed columns also
        `"num_steps"`, the number of columns in use.
    """
    constraints, alpha = inputs
    search = _BeamSearch(
        prepared(model),
        constraints,
        alpha,
        num_beams,
        num_results,
        columns,
        no_repeat_ngram,
    )
    state = while_loop(
        lambda state: ops.logical_not(ops.all(state.is_done)),
        search.step,
        _start_state(model, constraints, num_beams, columns),
        columns.is_fixed,
    )
    results = _results(state, num_results)
    if columns.is_fixed:
        results["num_steps"] = state.position
    return results


@dataclasses.dataclass(frozen=True)
class _BeamSearch:
    """One beam search: the values that all steps share, and a step."""

    model: StepModel
    constraints: Constraints
    alpha: Tensor  # float32 (), the exponent of the length penalty
    num_beams: int  # M
    num_results: int  # R
    columns: Columns  # of tokens
    no_repeat_ngram: int

    def step(self, state: BeamState) -> BeamState:
        """Makes each beam one token longer: `p` steps -> `p + 1` steps."""
        columns, position = self.columns, state.position
        ancestors = self._with_own_index(state)
        continuations, active = self._continue_beams(state, ancestors)
        sequences = columns.append(
            take_beams(state.beam_token_ids, continuations.parents),
            continuations.token_ids,
            position,
        )  # (B, C, p + 1)
        length = position + 1
        # Continuations that do not end become the beams ...
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
        # ... and those that end compete with earlier finished ones.
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
        # Dropping rows would change the shape of the cache.
        if not columns.is_fixed:
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
                columns.pad(state.beam_token_ids),
                beam_token_ids,
            ),
            beam_log_probs=ops.where(
                was_done, state.beam_log_probs, beam_log_probs
            ),
            last_token_ids=columns.at(beam_token_ids, position),
            ancestors=ancestors,
            finished_token_ids=ops.where(
                was_done[..., None],
                columns.pad(state.finished_token_ids),
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
    ) -> tuple["_Continuations", ActiveSentences]:
        """Decodes one position, and finds the best continuations.

        Returns continuations of all `B` sentences. A finished sentence gets the
        continuations of another sentence, which are ignored.
        """
        logits, active = decode_active(
            self.model,
            state.active,
            state.last_token_ids,
            state.position,
            ancestors,
            merges=not self.columns.is_fixed,
        )  # (A, M, V)
        continuations = _best_continuations(
            active.gather_active(state.beam_log_probs),
            logits,
            self._allowed(logits, state, active),
            # `C`. At most `M` of `2 * M` end, since each beam can end in only
            # one way, so `M` are left. One beam is greedy search, which ends
            # when the best token is the end of sentence.
            1 if self.num_beams == 1 else 2 * self.num_beams,
        )
        in_batch = map(active.scatter_to_batch, continuations)
        return _Continuations(*in_batch), active

    def _allowed(
        self, logits: Tensor, state: BeamState, active: ActiveSentences
    ) -> Tensor:
        """Lowers the logits of the tokens that are not allowed."""
        beams = None
        if self.no_repeat_ngram:
            beams = active.gather_active(state.beam_token_ids)
        return forbid(
            self.constraints,
            logits,
            state.position,
            active,
            beams,
            self.no_repeat_ngram,
        )

    def _best_finished(
        self, state: BeamState, continuations: "_Continuations", ids: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Chooses the best of the hypotheses that ended before or end now.

        Takes continuations with the token ids `(B, C, p + 1)`. Returns scores
        `(B, M)` and token ids `(B, M, p + 1)`.
        """
        # Continuations of an impossible hypothesis stay impossible.
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
        before = self.columns.pad(state.finished_token_ids)
        return scores, take_beams(ops.concatenate([before, ids], 1), chosen)

    def _nothing_can_overtake(
        self, beam_log_probs: Tensor, finished_scores: Tensor
    ) -> Tensor:
        """Returns whether the worst result of each sentence is safe: `(B,)`."""
        # The best score that a beam can still reach: log P only falls, and
        # the length penalty is greatest at the limit, as alpha >= 0.
        bound = ops.max(beam_log_probs, axis=1) / length_penalty_of(
            self.constraints.limits, self.alpha
        )
        worst_result = finished_scores[:, self.num_results - 1]
        return worst_result >= bound


def length_penalty_of(length: Tensor, alpha: Tensor) -> Tensor:
    """Computes the length penalty of hypotheses.

    A log-probability is a sum over tokens, so it is lower for longer
    hypotheses. GNMT divides it by a penalty that grows with the length `|Y|`:

        score(Y, X) = log P(Y | X) / lp(Y)
        lp(Y) = (5 + |Y|)^alpha / (5 + 1)^alpha

    Args:
        length: int tensor, the number of tokens, the end of sentence included.
        alpha: float scalar. With `0.0` every penalty is 1.

    Reference:
     - [Wu et al., 2016](https://arxiv.org/abs/1609.08144), eq. 14
    """
    length = ops.cast(length, "float32")
    # Wu et al. (2016), eq. 14, without the coverage penalty cp(X; Y).
    return ops.power((5.0 + length) / 6.0, alpha)


def _results(state: BeamState, num_results: int) -> dict[str, Tensor]:
    """Returns the finished hypotheses, or the beams if nothing ended."""
    is_finished = state.finished_scores > IMPOSSIBLE / 2  # (B, M)
    has_finished = is_finished[:, :1]
    token_ids = ops.where(
        has_finished[..., None],
        # Rows without a finished hypothesis may hold ids of an impossible beam.
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


# === The best continuations of the beams ===


class _Continuations(NamedTuple):
    """The `C` best continuations of each sentence, best first.

    Attributes:
        token_ids: int32 tensor `(A, C)`, the token that each adds.
        parents: int32 tensor `(A, C)`, the index of the beam that each
            continues.
        log_probs: float32 tensor `(A, C)`, log P of the whole hypothesis.
        is_broken: bool tensor `(A,)`, whether a logit was not finite.
    """

    token_ids: Tensor
    parents: Tensor
    log_probs: Tensor
    is_broken: Tensor


def _best_continuations(
    beam_log_probs: Tensor,
    logits: Tensor,
    allowed: Tensor,
    num_continuations: int,
) -> _Continuations:
    """Finds the best tokens to continue the beams of each sentence with.

        log P(y_1 .. y_t | x) = log P(y_1 .. y_(t-1) | x) + logit(y_t) - log Z
        Z = sum of exp(logit) over the vocabulary

    Args:
        beam_log_probs: float tensor `(A, M)`.
        logits: float tensor `(A, M, V)`.
        allowed: the logits, very low for tokens that are not allowed. The same
            object as `logits` if all are allowed.
        num_continuations: int `C`, over all beams of a sentence.
    """
    num_beams, vocabulary_size = logits.shape[1:]
    # The best of a sentence are among the best of each of its beams, so no
    # normalized copy of all logits is needed.
    per_beam = min(num_continuations, vocabulary_size)
    best_logits, token_ids = top_k(allowed, per_beam)
    if allowed is logits:
        # exp(logit) / Z of the best token is at least `1 / V`. A softmax
        # passes over the vocabulary half as often as a sum of exponentials.
        probability = ops.take_along_axis(
            ops.softmax(logits), token_ids[..., :1], axis=-1
        )
        # log Z, (A, M, 1)
        normalizer = best_logits[..., :1] - ops.log(probability)
    else:
        # Tokens that are not allowed stay in the sum: the log-probabilities are
        # those of the model without constraints.
        normalizer = ops.logsumexp(logits, axis=-1, keepdims=True)
    totals = beam_log_probs[..., None] + best_logits - normalizer
    log_probs, indices = ops.top_k(
        ops.reshape(totals, (-1, num_beams * per_beam)), num_continuations
    )
    token_ids = ops.reshape(token_ids, (-1, num_beams * per_beam))
    return _Continuations(
        token_ids=take_beams(token_ids, indices),
        parents=ops.cast(indices // per_beam, "int32"),
        log_probs=log_probs,
        # The sum is not finite if a single logit is not.
        is_broken=ops.logical_not(
            ops.all(ops.isfinite(normalizer), axis=(1, 2))
        ),
    )


def take_beams(values: Tensor, beams: Tensor) -> Tensor:
    """Takes beams of each sentence: `(B, M, ...)`, `(B, m)` -> `(B, m, ...)`.

    Args:
        values: tensor `(B, M, ...)`.
        beams: int tensor `(B, m)` of indices in `[0, M)`.
    """
    shape = tuple(ops.shape(values))
    flat = ops.reshape(values, (shape[0] * shape[1], *shape[2:]))
    # Beam m of sentence b is row b * M + m of the flat values.
    first_rows = ops.arange(ops.shape(beams)[0], dtype="int32")[:, None]
    rows = first_rows * shape[1] + ops.cast(beams, "int32")
    return take_rows(flat, rows)


def top_k(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Finds the `k` largest values, as `keras.ops.top_k`, for a vocabulary.

    The `k` largest are in the `k` chunks with the largest maxima, so only those
    few are sorted. On a CPU, a maximum over all is several times as fast.

    Args:
        values: float tensor `(A, M, V)`.
        k: int, at most `V`.

    Returns:
        Pair of values `(A, M, k)`, largest first, and their indices, int32.
    """
    if not prefers_own_kernels():
        largest, indices = ops.top_k(values, k)
        return largest, ops.cast(indices, "int32")
    # For 128 rows of 8,000 and k = 8, on two CPU cores, Keras' own takes 2
    # times as long on TensorFlow, 12 times on JAX and 0.9 times on PyTorch.
    num_beams, size = values.shape[1:]
    width = _chunk_width(size)
    num_chunks = math.ceil(size / width)
    missing = num_chunks * width - size
    if missing:
        values = ops.pad(
            values, ((0, 0), (0, 0), (0, missing)), constant_values=_LOWEST
        )
    chunks = ops.reshape(values, (-1, num_chunks, width))
    maxima = ops.max(chunks, axis=-1)  # (A * M, V / width)
    num_best = min(k, num_chunks)
    _, best = ops.top_k(maxima, num_best)
    best = ops.cast(best, "int32")
    # The best chunks of a row, concatenated: the few values to sort.
    rows = ops.arange(ops.shape(chunks)[0], dtype="int32")[:, None]
    flat = ops.reshape(chunks, (-1, width))
    finalists = ops.reshape(
        take_rows(flat, rows * num_chunks + best),
        (-1, num_best * width),
    )
    largest, indices = ops.top_k(finalists, k)
    indices = ops.cast(indices, "int32")
    # From an index in these chunks to one in the vocabulary.
    chunk = ops.take_along_axis(best, indices // width, axis=-1)
    return (
        ops.reshape(largest, (-1, num_beams, k)),
        ops.reshape(chunk * width + indices % width, (-1, num_beams, k)),
    )


def _chunk_width(size: int) -> int:
    """Returns about the square root, a divisor of `size` if one is near."""
    root = math.isqrt(size)
    near = range(max(root, 1), 2 * root + 2)
    return next((width for width in near if size % width == 0), root + 1)


# === On JAX ===


def _search_on_jax(
    model: Transformer | Ensemble,
    inputs: tuple[Constraints, Tensor],
    num_beams: int,
    num_results: int,
    no_repeat_ngram: int,
) -> dict[str, Tensor]:
    """Runs the loop compiled by XLA, which compiles each of a few shapes."""
    import jax

    constraints, alpha = inputs
    batch_size = constraints.limits.shape[0]
    if not batch_size:
        return beam_search_loop(model, inputs, num_beams, num_results)
    longest = int(ops.convert_to_numpy(constraints.limits).max())
    num_positions = _round_up(max(longest, 1))
    inputs = (Constraints(*map(_rounded, constraints)), alpha)
    functions = compiled_functions(model)
    sizes = (num_beams, num_results, Columns(num_positions), no_repeat_ngram)
    key = (beam_search_loop, *sizes)
    weights = model.weights
    if key not in functions:

        def search(
            values: list[Tensor], inputs: tuple[Constraints, Tensor]
        ) -> dict[str, Tensor]:
            # As arguments; otherwise the weights would be constants.
            with keras.StatelessScope(list(zip(weights, values))):
                return beam_search_loop(model, inputs, *sizes)

        functions[key] = jax.jit(search)
    results = functions[key]([weight.value for weight in weights], inputs)
    width = int(results.pop("num_steps"))
    return {
        "token_ids": results["token_ids"][:batch_size, :, :width],
        "scores": results["scores"][:batch_size],
    }


def _rounded(values: Tensor | None) -> Tensor | None:
    """Pads `(B, S)` with id 0, and repeats the last row of `(B, ...)`.

    The added sentences repeat the last one, and are done when it is.
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
