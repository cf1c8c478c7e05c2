"""Translations drawn from the model's distribution."""

from keras import ops

from relative_attention.argument_checks import checked_at_least
from relative_attention.argument_checks import checked_number
from relative_attention.decoding.alignment import alignment
from relative_attention.decoding.constraints import END_ID
from relative_attention.decoding.constraints import IMPOSSIBLE
from relative_attention.decoding.constraints import Constraints
from relative_attention.decoding.constraints import constraint_tensors
from relative_attention.decoding.finite_model import check_numbers
from relative_attention.decoding.gumbel_noise import gumbel_noise
from relative_attention.decoding.gumbel_noise import noise_keys
from relative_attention.decoding.live_sentences import decode_live
from relative_attention.decoding.live_sentences import drop_done
from relative_attention.decoding.live_sentences import of_all
from relative_attention.decoding.live_sentences import of_live
from relative_attention.decoding.live_sentences import start_live
from relative_attention.decoding.run_compiled import run_compiled
from relative_attention.decoding.start_token_id import first_inputs
from relative_attention.decoding.while_loop import while_loop

# Beyond these the likeliest token alone is drawn, or any alike; float32 has
# numbers for what is divided by them.
_LEAST_TEMPERATURE = 1e-30
_MOST_TEMPERATURE = 1e30


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

    Of the tokens at a position that with the largest sum of its logit, over
    the temperature, and a number of a Gumbel distribution is drawn. That
    number depends on the seed, the source sentence, the number of the result,
    the position and the token alone, so what a sentence gets does not depend
    on the others in the batch. Logits do, in their last digits, as products
    of matrices round them: where two sums are equal to about 1e-6, once in
    some million tokens, either may be drawn.

    Args:
        model: `Transformer`.
        source_token_ids: int array `(B, S)`, each row ending with id 1 and
            padded with id 0.
        num_results: int. Independent draws a sentence. Defaults to `1`.
        temperature: float. Logits are divided by it: below 1 likely tokens
            become likelier, down to the likeliest alone; above 1 all become
            alike. Defaults to `1.0`.
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
        InputError: if the model gives logits that are not finite.

    Reference:
     - [Holtzman et al., 2020](https://arxiv.org/abs/1904.09751), section 3.1
    """
    num_results = checked_at_least("num_results", num_results, 1)
    temperature = checked_number(
        "temperature",
        temperature,
        lambda value: value > 0,
        "above 0 (`beam_search` with one beam takes the likeliest token)",
    )
    if top_k is not None:
        top_k = checked_at_least("top_k", top_k, 1)
    if top_p is not None:
        top_p = checked_number(
            "top_p", top_p, lambda value: 0 < value <= 1, "in (0, 1]"
        )
    if seed is not None:
        seed = checked_at_least("seed", seed, 0)
    tensors = constraint_tensors(
        source_token_ids,
        max_extra_length=max_extra_length,
        max_length=max_length,
        min_length=min_length,
        target_prefix=target_prefix,
        config=getattr(model, "config", None),
    )
    tensors["keys"] = noise_keys(
        ops.convert_to_numpy(tensors["source_token_ids"]), num_results, seed
    )
    tensors["temperature"] = ops.convert_to_tensor(
        min(max(temperature, _LEAST_TEMPERATURE), _MOST_TEMPERATURE), "float32"
    )
    if top_p is not None:
        tensors["top_p"] = ops.convert_to_tensor(top_p, "float32")
    results = run_compiled(
        _sample, model, tensors, num_results=num_results, top_k=top_k
    )
    check_numbers(model, results["scores"])
    if return_attention:
        results["attention"] = alignment(
            model, tensors["source_token_ids"], results["token_ids"]
        )
    return results


def _sample(model, tensors, num_results, top_k):
    # The first dimensions of every tensor below are (B, R): sentences, draws.
    constraints = dict(tensors)
    keys = constraints.pop("keys")
    temperature = constraints.pop("temperature")
    top_p = constraints.pop("top_p", None)
    constraints = Constraints(**constraints)
    shape = (ops.shape(keys)[0], num_results)
    # So that the number of results is known when the graph is made.
    keys = ops.reshape(keys, (*shape, 2))

    def is_not_done(state):
        return ops.logical_not(ops.all(state["is_done"]))

    def step(state):
        position = state["position"]
        logits, live = decode_live(
            model, state["live"], state["last_token_ids"], position
        )
        token_ids = _draw(
            _tempered(
                logits,
                temperature,
                lambda logits: constraints.forbid(logits, position, live),
            ),
            gumbel_noise(of_live(live, keys), position, logits.shape[-1]),
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
            # Of logits that are no numbers.
            | ops.isnan(gained)
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
            "last_token_ids": first_inputs(model, shape),
            "token_ids": ops.zeros((*shape, 0), "int32"),
            "log_probs": ops.zeros(shape, "float32"),
            "live": start_live(model, tensors["source_token_ids"]),
            "is_done": ops.broadcast_to(
                (constraints.limits <= 0)[:, None], shape
            ),
        },
    )
    return {"token_ids": state["token_ids"], "scores": state["log_probs"]}


def _tempered(logits, temperature, forbid):
    """Logits over the temperature, none above 0; of what is allowed."""
    allowed = forbid(logits)
    # The likeliest stays at 0 and nothing overflows, however small the
    # temperature; what is forbidden is not raised, however large.
    largest = ops.max(allowed, axis=-1, keepdims=True)
    return forbid((logits - largest) / temperature)


def _draw(logits, noise, top_k, top_p):
    """A token for each row of logits: `(A, R, V)` twice -> `(A, R)`."""
    size = logits.shape[-1]
    token_ids = None
    if top_k is not None or top_p is not None:
        logits, token_ids = ops.top_k(logits, min(top_k or size, size))
        noise = ops.take_along_axis(noise, token_ids, axis=-1)
    if top_p is not None:
        weights = ops.exp(logits - logits[..., :1])
        reached = ops.cumsum(weights, axis=-1)
        is_kept = reached - weights < top_p * reached[..., -1:]
        logits = ops.where(is_kept, logits, IMPOSSIBLE)
    chosen = ops.argmax(logits + noise, axis=-1)
    if token_ids is not None:
        chosen = ops.take_along_axis(token_ids, chosen[..., None], axis=-1)
        chosen = chosen[..., 0]
    return ops.cast(chosen, "int32")
