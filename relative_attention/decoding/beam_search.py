"""Beam search with GNMT's length penalty."""

import numpy as np
from keras import ops

from relative_attention.argument_checks import checked_at_least
from relative_attention.decoding.alignment import alignment
from relative_attention.decoding.beam_settings import check_length_penalty
from relative_attention.decoding.beam_settings import check_num_beams
from relative_attention.decoding.constraints import END_ID
from relative_attention.decoding.constraints import IMPOSSIBLE
from relative_attention.decoding.constraints import Constraints
from relative_attention.decoding.constraints import constraint_tensors
from relative_attention.decoding.finite_model import check_numbers
from relative_attention.decoding.live_sentences import decode_live
from relative_attention.decoding.live_sentences import drop_done
from relative_attention.decoding.live_sentences import of_all
from relative_attention.decoding.live_sentences import of_live
from relative_attention.decoding.live_sentences import start_live
from relative_attention.decoding.run_compiled import run_compiled
from relative_attention.decoding.start_token_id import first_inputs
from relative_attention.decoding.take_rows import take_rows
from relative_attention.decoding.top_k import top_k
from relative_attention.decoding.while_loop import while_loop


def beam_search(
    model,
    source_token_ids,
    num_beams=4,
    length_penalty=0.6,
    max_extra_length=50,
    num_results=1,
    max_length=None,
    min_length=0,
    target_prefix=None,
    return_attention=False,
):
    """The most probable translations that a beam search finds.

    A hypothesis of `len` tokens, the end of sentence included, scores
    `log P / ((5 + len) / 6)^length_penalty` (Wu et al. 2016, eq. 14). At each
    step the `2 * num_beams` best continuations of the `num_beams` live
    hypotheses (the best one, with one beam) are looked at: those that end
    join the finished ones, the best `num_beams` of the others live on. A
    sentence is done when no live hypothesis can still overtake its worst
    result, or at its longest length, its own source length plus
    `max_extra_length`, or `max_length`. What a sentence gets does not depend
    on the others in the batch.

    # Differs from tensor2tensor: there the length limit, and with several
    # results the end of the search, depend on the whole batch.

    Args:
        model: `Transformer`, or anything with its `start_cache`,
            `decode_step` and `merge_cache`.
        source_token_ids: int tensor `(B, S)`, each row ending with id 1 and
            padded with id 0.
        num_beams: int. Live hypotheses a sentence; `1` is greedy search.
            Defaults to `4`.
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
            sentence included; the longest length goes before. Defaults to
            `0`.
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
        its live ones, which lack the id 1, and their log-probabilities,
        unpenalised; where some ended, but fewer than `num_results`, the rest
        are rows of zeros with the score -1e7. With `return_attention` also
        `"attention"`, float32 `(B, num_results, L, N, T, S)`: the
        cross-attention scores by decoder block and head, from each token to
        the source.

    Raises:
        ValueError: if a number is out of range, or `target_prefix` has
            another number of rows, an id that the vocabulary has not, an id
            1, or an id after an id 0.
        InputError: if the model gives logits that are not finite; the error
            names the weight, or the dtype.

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
    tensors = constraint_tensors(
        source_token_ids,
        max_extra_length=max_extra_length,
        max_length=max_length,
        min_length=min_length,
        target_prefix=target_prefix,
        config=getattr(model, "config", None),
    )
    tensors["length_penalty"] = ops.convert_to_tensor(length_penalty, "float32")
    results = run_compiled(
        search, model, tensors, num_beams=num_beams, num_results=num_results
    )
    check_numbers(model, results["scores"])
    if return_attention:
        results["attention"] = alignment(
            model, tensors["source_token_ids"], results["token_ids"]
        )
    return results


def search(model, tensors, num_beams, num_results):
    """`beam_search` on tensors, for use within a graph.

    Args:
        model, num_beams, num_results: see `beam_search`.
        tensors: dict of what `constraint_tensors` gives, and a float scalar
            `"length_penalty"`.
    """
    # The first dimensions of every tensor below are (B, M): sentences, beams.
    num_candidates = 1 if num_beams == 1 else 2 * num_beams
    constraints = dict(tensors)
    length_penalty = constraints.pop("length_penalty")
    constraints = Constraints(**constraints)
    best_penalties = _penalty(constraints.limits, length_penalty)

    def is_not_done(state):
        return ops.logical_not(ops.all(state["is_done"]))

    def step(state):
        position = state["position"]
        ancestors = None
        if num_beams > 1:
            ancestors = _with_own_places(state["ancestors"])
        logits, live = decode_live(
            model,
            state["live"],
            state["last_token_ids"],
            position,
            ancestors,
        )
        candidates = _best_continuations(
            of_live(live, state["log_probs"]),
            logits,
            constraints.forbid(logits, position, live),
            num_candidates,
        )
        is_broken = of_all(live, candidates.pop("is_broken"))
        is_broken = ops.where(state["is_done"], state["is_broken"], is_broken)
        candidates = {
            name: of_all(live, value) for name, value in candidates.items()
        }
        candidates["sequences"] = ops.concatenate(
            [
                _take_beams(state["token_ids"], candidates["parents"]),
                candidates["token_ids"][..., None],
            ],
            axis=2,
        )
        alive = _select_alive(candidates, num_beams)
        finished = _select_finished(
            state, candidates, _penalty(position + 1, length_penalty), num_beams
        )
        # The best that a live hypothesis can still become: its probability
        # only falls, and no divisor is greater than that of the limit.
        bound = ops.max(alive["log_probs"], axis=1) / best_penalties
        worst_result = finished["finished_scores"][:, num_results - 1]
        is_done = (
            state["is_done"]
            | is_broken
            | (worst_result >= bound)
            | (position + 1 >= constraints.limits)
        )
        chosen = _keep_done({**alive, **finished}, state)
        if num_beams > 1:
            chosen["ancestors"] = _take_beams(ancestors, alive["parents"])
        return {
            **chosen,
            "last_token_ids": alive["token_ids"][:, :, -1],
            "live": drop_done(live, is_done),
            "position": position + 1,
            "is_done": is_done,
            "is_broken": is_broken,
        }

    state = _start(
        model, tensors["source_token_ids"], num_beams, constraints.limits
    )
    return _results(while_loop(is_not_done, step, state), num_results)


def _penalty(length, length_penalty):
    length = ops.cast(length, "float32")
    return ops.power((5.0 + length) / 6.0, length_penalty)


def _start(model, source_token_ids, num_beams, limits):
    beams = (ops.shape(source_token_ids)[0], num_beams)
    # All beams are equal at first: only one may have continuations.
    first_beam = ops.arange(num_beams, dtype="int32") == 0
    state = {
        "position": ops.zeros((), "int32"),
        "last_token_ids": first_inputs(model, beams),
        "token_ids": ops.zeros((*beams, 0), "int32"),
        "log_probs": ops.where(
            first_beam, ops.zeros(beams, "float32"), IMPOSSIBLE
        ),
        "finished_token_ids": ops.zeros((*beams, 0), "int32"),
        "finished_scores": ops.full(beams, IMPOSSIBLE, "float32"),
        "live": start_live(model, source_token_ids),
        "is_done": limits <= 0,
        # Whether a logit was no number: then nothing found is a translation.
        "is_broken": ops.zeros_like(limits, "bool"),
    }
    if num_beams > 1:
        state["ancestors"] = ops.zeros((*beams, 0), "int32")
    return state


def _with_own_places(ancestors):
    """`(B, M, p)` -> `(B, M, p + 1)`: at the last, each beam's own place."""
    batch_size, num_beams, _ = ops.shape(ancestors)
    places = ops.arange(num_beams, dtype="int32")[None, :, None]
    return ops.concatenate(
        [ancestors, ops.broadcast_to(places, (batch_size, num_beams, 1))],
        axis=2,
    )


def _best_continuations(log_probs, logits, allowed, num_candidates):
    """The best tokens of all beams of a sentence, best first.

    Args:
        log_probs: float tensor `(A, M)`.
        logits: float tensor `(A, M, V)`.
        allowed: the logits, with those of tokens not allowed far below.
        num_candidates: int `C`.

    Returns:
        Dict of `"token_ids"`, `"parents"` (the beam continued) and
        `"log_probs"` (of the whole hypothesis), each `(A, C)`; and
        `"is_broken"` `(A,)`, whether a logit is not finite.
    """
    num_beams, vocabulary_size = logits.shape[1:]
    # The best of a sentence are among the best of each of its beams, and
    # those need no normalised copy of all the logits.
    per_beam = min(num_candidates, vocabulary_size)
    best_logits, token_ids, largest = top_k(allowed, per_beam)
    if allowed is not logits:
        largest = ops.max(logits, axis=-1, keepdims=True)
    normalizer = largest + ops.log(
        ops.sum(ops.exp(logits - largest), axis=-1, keepdims=True)
    )
    totals = log_probs[..., None] + best_logits - normalizer
    log_probs, indices = ops.top_k(
        ops.reshape(totals, (-1, num_beams * per_beam)), num_candidates
    )
    token_ids = ops.reshape(token_ids, (-1, num_beams * per_beam))
    return {
        "token_ids": _take_beams(token_ids, indices),
        "parents": ops.cast(indices // per_beam, "int32"),
        "log_probs": log_probs,
        # One logit that is no number leaves no sum that is one.
        "is_broken": ops.logical_not(
            ops.all(ops.isfinite(normalizer), axis=(1, 2))
        ),
    }


def _select_alive(candidates, num_beams):
    """The best candidates that do not end."""
    is_end = ops.equal(candidates["token_ids"], END_ID)
    log_probs, chosen = ops.top_k(
        ops.where(is_end, IMPOSSIBLE, candidates["log_probs"]), num_beams
    )
    return {
        "log_probs": log_probs,
        "parents": _take_beams(candidates["parents"], chosen),
        "token_ids": _take_beams(candidates["sequences"], chosen),
    }


def _select_finished(state, candidates, penalty, num_beams):
    """The best of what had ended before and what ends now."""
    # What continues an impossible hypothesis stays impossible.
    ends = ops.logical_and(
        ops.equal(candidates["token_ids"], END_ID),
        candidates["log_probs"] > IMPOSSIBLE / 2,
    )
    scores = ops.where(ends, candidates["log_probs"] / penalty, IMPOSSIBLE)
    scores, chosen = ops.top_k(
        ops.concatenate([state["finished_scores"], scores], axis=1), num_beams
    )
    sequences = ops.concatenate(
        [_pad_one(state["finished_token_ids"]), candidates["sequences"]],
        axis=1,
    )
    return {
        "finished_scores": scores,
        "finished_token_ids": _take_beams(sequences, chosen),
    }


def _keep_done(chosen, state):
    """What sentences that are done had before, what the others chose."""
    is_done = state["is_done"]
    for name in ("log_probs", "finished_scores"):
        chosen[name] = ops.where(is_done[:, None], state[name], chosen[name])
    for name in ("token_ids", "finished_token_ids"):
        chosen[name] = ops.where(
            is_done[:, None, None], _pad_one(state[name]), chosen[name]
        )
    del chosen["parents"]
    return chosen


def _results(state, num_results):
    has_finished = state["finished_scores"][:, 0] > IMPOSSIBLE / 2
    token_ids = ops.where(
        has_finished[:, None, None],
        state["finished_token_ids"],
        state["token_ids"],
    )
    scores = ops.where(
        has_finished[:, None], state["finished_scores"], state["log_probs"]
    )
    scores = ops.where(state["is_broken"][:, None], np.nan, scores)
    return {
        "token_ids": token_ids[:, :num_results],
        "scores": scores[:, :num_results],
    }


def _take_beams(values, beams):
    """`(B, M, ...)`, `(B, m)` -> `(B, m, ...)`."""
    shape = tuple(ops.shape(values))
    flat = ops.reshape(values, (shape[0] * shape[1], *shape[2:]))
    return take_rows(flat, _flat_rows(beams, shape[1]))


def _flat_rows(beams, num_beams):
    """Rows of `(B * M, ...)` of the beams `(B, m)` of each sentence."""
    first = ops.arange(ops.shape(beams)[0], dtype="int32")[:, None]
    return first * num_beams + ops.cast(beams, "int32")


def _pad_one(sequences):
    return ops.pad(sequences, ((0, 0), (0, 0), (0, 1)))
