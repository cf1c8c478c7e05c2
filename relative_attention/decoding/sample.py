"""Translations drawn from the model's distribution."""

import numpy as np
from keras import ops

from relative_attention.decoding.alignment import alignment
from relative_attention.decoding.constraints import END_ID
from relative_attention.decoding.constraints import Constraints
from relative_attention.decoding.constraints import constraint_tensors
from relative_attention.decoding.live_sentences import decode_live
from relative_attention.decoding.live_sentences import drop_done
from relative_attention.decoding.live_sentences import of_all
from relative_attention.decoding.live_sentences import of_live
from relative_attention.decoding.live_sentences import start_live
from relative_attention.decoding.run_compiled import run_compiled
from relative_attention.decoding.while_loop import while_loop


def sample(
    model,
    source_token_ids,
    num_results=1,
    temperature=1.0,
    top_k=None,
    top_p=None,
    seed=None,
    max_extra_length=50,
    max_length=None,
    min_length=0,
    target_prefix=None,
    return_attention=False,
):
    """Translations drawn token by token, for variety and back-translation.

    Each draw depends on the seed, the source sentence and the number of the
    result alone, so what a sentence gets does not depend on the others in the
    batch.

    Args:
        model: `Transformer`.
        source_token_ids: int array `(B, S)`, each row ending with id 1 and
            padded with id 0.
        num_results: int. Independent draws a sentence. Defaults to `1`.
        temperature: float. Logits are divided by it: below 1 likely tokens
            become likelier. Defaults to `1.0`.
        top_k: int. Draw among the `top_k` likeliest tokens. Defaults to
            `None`, all.
        top_p: float in `(0, 1]`. Draw among the fewest likeliest tokens
            whose probabilities reach it (nucleus sampling), of those that
            `top_k` leaves. Defaults to `None`, all.
        seed: int, not negative. Defaults to `None`, another at each call.
        max_extra_length, max_length, min_length: see `beam_search`.
        target_prefix, return_attention: see `beam_search`.

    Returns:
        Dict of `"token_ids"`, int32 `(B, num_results, T)`, in the order of
        the draws, each ending with id 1, unless it was cut at its longest
        length, and padded with id 0; and `"scores"`, float32
        `(B, num_results)`, the log-probabilities, of the untempered model.
        With `return_attention` also `"attention"`, see `beam_search`.

    Raises:
        ValueError: if a number is out of range, or `target_prefix` is as
            `beam_search` refuses it.

    Reference:
     - [Holtzman et al., 2020](https://arxiv.org/abs/1904.09751), section 3.1
    """
    for name, value, is_allowed, allowed in (
        ("num_results", num_results, num_results >= 1, "at least 1"),
        (
            "temperature",
            temperature,
            temperature > 0,
            "above 0 (`beam_search` with one beam takes the likeliest token)",
        ),
        ("top_k", top_k, top_k is None or top_k >= 1, "at least 1"),
        ("top_p", top_p, top_p is None or 0 < top_p <= 1, "in (0, 1]"),
        ("seed", seed, seed is None or seed >= 0, "not negative"),
    ):
        if not is_allowed:
            raise ValueError(
                f"`{name}` must be {allowed}. Received: {name}={value}."
            )
    tensors = constraint_tensors(
        source_token_ids,
        max_extra_length=max_extra_length,
        max_length=max_length,
        min_length=min_length,
        target_prefix=target_prefix,
        config=getattr(model, "config", None),
    )
    longest = int(ops.max(Constraints(**tensors).limits, initial=0))
    tensors["draws"] = ops.convert_to_tensor(
        _draws(np.asarray(source_token_ids), num_results, longest, seed)
    )
    tensors["temperature"] = ops.convert_to_tensor(temperature, "float32")
    if top_p is not None:
        tensors["top_p"] = ops.convert_to_tensor(top_p, "float32")
    results = run_compiled(
        _sample, model, tensors, num_results=num_results, top_k=top_k
    )
    if return_attention:
        results["attention"] = alignment(
            model, tensors["source_token_ids"], results["token_ids"]
        )
    return results


def _draws(source_token_ids, num_results, length, seed):
    """Uniform numbers in [0, 1), float32 `(B, num_results, length)`."""
    if seed is None:
        seed = np.random.SeedSequence().entropy
    draws = np.zeros((len(source_token_ids), num_results, length), np.float32)
    for row, sentence in zip(draws, source_token_ids):
        key = sentence[sentence != 0].tolist()
        for number in range(num_results):
            rng = np.random.default_rng([seed, number, *key])
            row[number] = rng.random(length, np.float32)
    return draws


def _sample(model, tensors, num_results, top_k):
    # The first dimensions of every tensor below are (B, R): sentences, draws.
    constraints = dict(tensors)
    draws = constraints.pop("draws")
    temperature = constraints.pop("temperature")
    top_p = constraints.pop("top_p", None)
    constraints = Constraints(**constraints)
    batch_size, _, length = ops.shape(draws)
    shape = (batch_size, num_results)
    # So that the number of results is known when the graph is made.
    draws = ops.reshape(draws, (*shape, length))

    def is_not_done(state):
        return ops.logical_not(ops.all(state["is_done"]))

    def step(state):
        position = state["position"]
        logits, live = decode_live(
            model, state["live"], state["last_token_ids"], position
        )
        allowed = constraints.forbid(logits, position, live)
        token_ids = _draw(
            allowed / temperature,
            of_live(live, ops.take(draws, position, axis=2)),
            top_k,
            top_p,
        )
        log_probs = ops.take_along_axis(logits, token_ids[..., None], axis=-1)
        log_probs = log_probs[..., 0] - ops.logsumexp(logits, axis=-1)
        is_done = state["is_done"]
        token_ids = ops.where(is_done, 0, of_all(live, token_ids))
        gained = ops.where(is_done, 0.0, of_all(live, log_probs))
        is_done = (
            is_done
            | ops.equal(token_ids, END_ID)
            | (position + 1 >= constraints.limits)[:, None]
        )
        return {
            "position": position + 1,
            "last_token_ids": token_ids,
            "token_ids": ops.concatenate(
                [state["token_ids"], token_ids[..., None]], axis=2
            ),
            "log_probs": state["log_probs"] + gained,
            "live": drop_done(live, ops.all(is_done, axis=1)),
            "is_done": is_done,
        }

    state = while_loop(
        is_not_done,
        step,
        {
            "position": ops.zeros((), "int32"),
            "last_token_ids": ops.full(
                shape, getattr(model, "start_token_id", 0), "int32"
            ),
            "token_ids": ops.zeros((*shape, 0), "int32"),
            "log_probs": ops.zeros(shape, "float32"),
            "live": start_live(model, tensors["source_token_ids"]),
            "is_done": ops.broadcast_to(
                (constraints.limits <= 0)[:, None], shape
            ),
        },
    )
    return {"token_ids": state["token_ids"], "scores": state["log_probs"]}


def _draw(logits, draws, top_k, top_p):
    """A token for each row of logits: `(A, R, V)`, `(A, R)` -> `(A, R)`."""
    vocabulary_size = logits.shape[-1]
    token_ids = None
    if top_k is not None or top_p is not None:
        logits, token_ids = ops.top_k(
            logits, min(top_k or vocabulary_size, vocabulary_size)
        )
    # In proportion to the probabilities.
    weights = ops.exp(logits - ops.max(logits, axis=-1, keepdims=True))
    reached = ops.cumsum(weights, axis=-1)
    if top_p is not None:
        is_kept = reached - weights < top_p * reached[..., -1:]
        reached = ops.cumsum(ops.where(is_kept, weights, 0.0), axis=-1)
    # Where the draw falls on the weights laid end to end; rounding must
    # not take it past the last that is possible.
    mark = draws[..., None] * reached[..., -1:]
    is_passed = (reached <= mark) & (reached < reached[..., -1:])
    chosen = ops.sum(ops.cast(is_passed, "int32"), axis=-1)
    if token_ids is None:
        return chosen
    picked = ops.take_along_axis(token_ids, chosen[..., None], axis=-1)
    return ops.cast(picked[..., 0], "int32")
