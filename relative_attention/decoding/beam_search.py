"""Beam search with GNMT's length penalty."""

import keras
from keras import ops

from relative_attention.decoding.while_loop import while_loop

_END_ID = 1
# Log-probability of what is impossible; finite, so that sums stay numbers.
_IMPOSSIBLE = -1e7
# More tokens than any translation has, and far below the largest int32.
_NO_LIMIT = 2**30


def beam_search(
    model,
    source_token_ids,
    num_beams=4,
    length_penalty=0.6,
    max_extra_length=50,
    num_results=1,
    max_length=None,
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
        model: `Transformer`, or anything with its `start_cache` and
            `decode_step`.
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

    Returns:
        Dict of `"token_ids"`, int32 `(B, num_results, T)`, best first, each
        ending with id 1 and padded with id 0, and `"scores"`, float32
        `(B, num_results)`. A sentence none of whose hypotheses ended gets
        its live ones, which lack the id 1, and their log-probabilities,
        unpenalised; where some ended, but fewer than `num_results`, the rest
        are rows of zeros with the score -1e7.

    Raises:
        ValueError: if a number is out of range.

    Reference:
     - [Wu et al., 2016](https://arxiv.org/abs/1609.08144), section 7
    """
    for name, value, allowed in (
        ("num_beams", num_beams, num_beams >= 1),
        ("num_results", num_results, 1 <= num_results <= num_beams),
        ("max_length", max_length, max_length is None or max_length >= 0),
        ("length_penalty", length_penalty, length_penalty >= 0),
    ):
        if not allowed:
            raise ValueError(
                "`num_beams` must be at least 1, `num_results` between 1 and "
                "`num_beams`, `max_length` and `length_penalty` not negative. "
                f"Received: {name}={value}."
            )
    search = _compiled_search(model, num_beams, num_results)
    return search(
        ops.convert_to_tensor(source_token_ids, "int32"),
        ops.convert_to_tensor(length_penalty, "float32"),
        ops.convert_to_tensor(max_extra_length, "int32"),
        ops.convert_to_tensor(
            _NO_LIMIT if max_length is None else max_length, "int32"
        ),
    )


def _compiled_search(model, num_beams, num_results):
    """The search as one TensorFlow graph, traced once a model.

    Kept with the model, so that it goes when the model goes.
    """

    def search(source_token_ids, length_penalty, max_extra_length, max_length):
        return _search(
            model,
            source_token_ids,
            num_beams,
            length_penalty,
            max_extra_length,
            max_length,
            num_results,
        )

    if keras.backend.backend() != "tensorflow":
        return search
    import tensorflow as tf

    searches = model.__dict__.setdefault("_beam_searches", {})
    key = (num_beams, num_results)
    if key not in searches:
        searches[key] = tf.function(
            search,
            input_signature=[
                tf.TensorSpec((None, None), tf.int32),
                tf.TensorSpec((), tf.float32),
                tf.TensorSpec((), tf.int32),
                tf.TensorSpec((), tf.int32),
            ],
            autograph=False,
        )
    return searches[key]


def _search(
    model,
    source_token_ids,
    num_beams,
    length_penalty,
    max_extra_length,
    max_length,
    num_results,
):
    # The first dimensions of every tensor below are (B, M): sentences, beams.
    num_candidates = 1 if num_beams == 1 else 2 * num_beams
    source = model.start_cache(source_token_ids, num_beams)
    source_lengths = ops.sum(
        ops.cast(ops.not_equal(source_token_ids, 0), "int32"), axis=1
    )
    limits = ops.maximum(
        ops.minimum(source_lengths + max_extra_length, max_length), 0
    )
    best_penalties = _penalty(limits, length_penalty)

    def is_not_done(state):
        return ops.logical_not(ops.all(state["is_done"]))

    def step(state):
        length = state["position"] + 1
        logits, cache = model.decode_step(
            state["last_token_ids"],
            {**source, "blocks": state["blocks"]},
            state["position"],
        )
        candidates = _best_continuations(
            state["log_probs"], logits, num_candidates
        )
        candidates["sequences"] = ops.concatenate(
            [
                _take_beams(state["token_ids"], candidates["parents"]),
                candidates["token_ids"][..., None],
            ],
            axis=2,
        )
        alive = _select_alive(candidates, num_beams)
        finished = _select_finished(
            state, candidates, _penalty(length, length_penalty), num_beams
        )
        # The best that a live hypothesis can still become: its probability
        # only falls, and no divisor is greater than that of the limit.
        bound = ops.max(alive["log_probs"], axis=1) / best_penalties
        worst_result = finished["finished_scores"][:, num_results - 1]
        is_done = ops.logical_or(worst_result >= bound, length >= limits)
        chosen = _keep_done({**alive, **finished}, state)
        return {
            **chosen,
            "last_token_ids": alive["token_ids"][:, :, -1],
            "blocks": _reorder(cache["blocks"], alive["parents"]),
            "position": length,
            "is_done": ops.logical_or(state["is_done"], is_done),
        }

    state = _start(source_token_ids, source["blocks"], num_beams, limits)
    return _results(while_loop(is_not_done, step, state), num_results)


def _penalty(length, length_penalty):
    length = ops.cast(length, "float32")
    return ops.power((5.0 + length) / 6.0, length_penalty)


def _start(source_token_ids, blocks, num_beams, limits):
    batch_size = ops.shape(source_token_ids)[0]
    beams = (batch_size, num_beams)
    # All beams are equal at first: only one may have continuations.
    first_beam = ops.arange(num_beams) == 0
    return {
        "position": ops.zeros((), "int32"),
        "last_token_ids": ops.zeros(beams, "int32"),
        "token_ids": ops.zeros((*beams, 0), "int32"),
        "log_probs": ops.zeros(beams)
        + ops.where(first_beam, 0.0, _IMPOSSIBLE)[None],
        "finished_token_ids": ops.zeros((*beams, 0), "int32"),
        "finished_scores": ops.full(beams, _IMPOSSIBLE),
        "blocks": blocks,
        "is_done": limits <= 0,
    }


def _best_continuations(log_probs, logits, num_candidates):
    """The best tokens of all beams of a sentence, best first.

    Returns:
        Dict of `"token_ids"`, `"parents"` (the beam continued) and
        `"log_probs"` (of the whole hypothesis), each `(B, num_candidates)`.
    """
    logits = ops.cast(logits, "float32")
    num_beams, vocabulary_size = logits.shape[1:]
    # The best of a sentence are among the best of each of its beams, and
    # those need no normalised copy of all the logits.
    per_beam = min(num_candidates, vocabulary_size)
    best_logits, token_ids = ops.top_k(logits, per_beam)
    normalizer = ops.logsumexp(logits, axis=-1, keepdims=True)
    totals = log_probs[..., None] + best_logits - normalizer
    log_probs, indices = ops.top_k(
        ops.reshape(totals, (-1, num_beams * per_beam)), num_candidates
    )
    token_ids = ops.reshape(token_ids, (-1, num_beams * per_beam))
    return {
        "token_ids": ops.cast(_take_beams(token_ids, indices), "int32"),
        "parents": ops.cast(indices // per_beam, "int32"),
        "log_probs": log_probs,
    }


def _select_alive(candidates, num_beams):
    """The best candidates that do not end."""
    is_end = ops.equal(candidates["token_ids"], _END_ID)
    log_probs, chosen = ops.top_k(
        ops.where(is_end, _IMPOSSIBLE, candidates["log_probs"]), num_beams
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
        ops.equal(candidates["token_ids"], _END_ID),
        candidates["log_probs"] > _IMPOSSIBLE / 2,
    )
    scores = ops.where(ends, candidates["log_probs"] / penalty, _IMPOSSIBLE)
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


def _reorder(blocks, parents):
    """Give each live hypothesis the cache of the one it continues."""
    rows = ops.reshape(_flat_rows(parents, parents.shape[1]), (-1,))
    return [
        {
            **block,
            "self_attention": {
                name: ops.take(cached, rows, axis=0)
                for name, cached in block["self_attention"].items()
            },
        }
        for block in blocks
    ]


def _results(state, num_results):
    has_finished = state["finished_scores"][:, 0] > _IMPOSSIBLE / 2
    token_ids = ops.where(
        has_finished[:, None, None],
        state["finished_token_ids"],
        state["token_ids"],
    )
    scores = ops.where(
        has_finished[:, None], state["finished_scores"], state["log_probs"]
    )
    return {
        "token_ids": token_ids[:, :num_results],
        "scores": scores[:, :num_results],
    }


def _take_beams(values, beams):
    """`(B, M, ...)`, `(B, m)` -> `(B, m, ...)`."""
    shape = tuple(ops.shape(values))
    flat = ops.reshape(values, (shape[0] * shape[1], *shape[2:]))
    return ops.take(flat, _flat_rows(beams, shape[1]), axis=0)


def _flat_rows(beams, num_beams):
    """Rows of `(B * M, ...)` of the beams `(B, m)` of each sentence."""
    first = ops.arange(ops.shape(beams)[0], dtype="int32")[:, None]
    return first * num_beams + ops.cast(beams, "int32")


def _pad_one(sequences):
    return ops.pad(sequences, ((0, 0), (0, 0), (0, 1)))
