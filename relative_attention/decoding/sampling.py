"""Translations drawn at random from the model's distribution."""

from typing import Any
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from relative_attention.argument_checks import checked_at_least
from relative_attention.argument_checks import checked_number
from relative_attention.decoding.compiled import run_compiled
from relative_attention.decoding.compiled import while_loop
from relative_attention.decoding.constraints import IMPOSSIBLE
from relative_attention.decoding.constraints import Constraints
from relative_attention.decoding.constraints import make_constraints
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
from relative_attention.decoding.searcher import check_attention
from relative_attention.decoding.searcher import check_has_steps
from relative_attention.models.config import END_ID
from relative_attention.tensor_type import Tensor

# At the lowest temperature only the most likely token is drawn, at the highest
# all tokens are equally likely. Logits over either are in the range of float32.
_LEAST_TEMPERATURE = 1e-30
_MOST_TEMPERATURE = 1e30
# Odd, so that multiples differ. The first is 2^32 over the golden ratio.
_NOISE_STEP = 0x9E3779B9
# A mixing function of 32 bits with very little bias (C. Wellons, 2018,
# "Prospecting for Hash Functions").
_MULTIPLIERS = (0x7FEB352D, 0x846CA68B)
# Above this a float32 below 1 would be 1.
_MOST_UNIFORM = 1 - 2**-24


def sample(
    model: StepModel,
    source_token_ids: Tensor,
    num_results: int = 1,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    max_extra_length: int = 50,
    max_length: int | None = None,
    min_length: int = 0,
    target_prefix: Tensor | None = None,
    return_attention: bool = False,
) -> dict[str, Tensor]:
    """Draws translations token by token, for variety and back-translation.

    At each position, a random Gumbel number is added to each logit divided by
    the temperature, and the token with the largest sum is drawn. The random
    number only depends on the seed, the source sentence, the number of the
    result, the position and the token. So a result does not depend on the other
    sentences in the batch. The batch only affects the rounding of logits: if
    two sums are equal to about 1e-6, which is rare, either may be drawn.

    Id 0, which is padding, may be drawn within a result. So results with
    different ids may have the same text.

    Args:
        model: `Transformer` or `Ensemble`.
        source_token_ids: int array `(B, S)`, each row ending with id 1 and
            padded with id 0.
        num_results: int. Independent draws per sentence. Defaults to `1`.
        temperature: float. Logits are divided by it. Below 1, likely tokens
            become more likely, in the limit only the most likely one; above 1,
            all become more equal. Defaults to `1.0`.
        top_k: int. Draw from the `top_k` most likely tokens. Defaults to
            `None`, all.
        top_p: float in `(0, 1]`. Draw from the fewest most likely tokens whose
            probabilities sum to at least `top_p` (nucleus sampling), after
            `top_k`. Defaults to `None`, all.
        seed: int, not negative. Defaults to `None`, another at each call.
        max_extra_length, max_length, min_length: see `beam_search`.
        target_prefix, return_attention: see `beam_search`.

    Returns:
        Dict of `"token_ids"`, int32 `(B, num_results, T)`, in the order of
        the draws, padded with id 0; each ends with id 1, unless it was cut at
        its longest length. And `"scores"`, float32 `(B, num_results)`, the
        log-probabilities without temperature. With `return_attention` also
        `"attention"`, see `beam_search`.

    Raises:
        ValueError: if a number is out of range, or `target_prefix` is invalid,
            see `beam_search`.
        InputError: if the model gives logits that are not finite, or has no
            attention to return, see `beam_search`.

    Reference:
     - [Holtzman et al., 2020](https://arxiv.org/abs/1904.09751), section 3.1
    """
    check_has_steps(model)
    num_results = checked_at_least("num_results", num_results, 1)
    temperature = checked_number(
        "temperature",
        temperature,
        lambda value: value > 0,
        "above 0 (`beam_search` with one beam takes the most likely one)",
    )
    if top_k is not None:
        top_k = checked_at_least("top_k", top_k, 1)
    if top_p is not None:
        top_p = checked_number(
            "top_p", top_p, lambda value: 0 < value <= 1, "in (0, 1]"
        )
    if seed is not None:
        seed = checked_at_least("seed", seed, 0)
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
    constraints = as_tensors(constraints)
    source_token_ids = constraints.source_token_ids
    temperature = min(max(temperature, _LEAST_TEMPERATURE), _MOST_TEMPERATURE)
    inputs = _SampleInputs(
        constraints=constraints,
        keys=noise_keys(
            ops.convert_to_numpy(source_token_ids), num_results, seed
        ),
        temperature=ops.convert_to_tensor(temperature, "float32"),
        top_p=top_p and ops.convert_to_tensor(top_p, "float32"),
    )
    results = run_compiled(
        _sample_loop, model, inputs, num_results=num_results, top_k=top_k
    )
    check_numbers(model, results["scores"])
    if return_attention:
        results["attention"] = cross_attention(
            model, source_token_ids, results["token_ids"]
        )
    return results


class _SampleInputs(NamedTuple):
    """The tensors that sampling starts from."""

    constraints: Constraints
    keys: Tensor  # int (B, R, 2), see `noise_keys`
    temperature: Tensor  # float32 ()
    top_p: Tensor | None  # float32 ()


class SampleState(NamedTuple):
    """The state of sampling after `p` steps.

    Each of the `B` sentences has `R` independent draws.
    """

    # The number of steps done, `p`: the position that the next step decodes.
    position: Tensor  # int32 ()
    # The model's cache, of the sentences with a draw that is not done.
    active: ActiveSentences
    # Whether a draw has ended, is at its limit or is not finite.
    is_done: Tensor  # bool (B, R)
    # The tokens drawn; id 0 after the end.
    token_ids: Tensor  # int32 (B, R, p)
    # What the decoder reads next: the start token, then the last drawn.
    last_token_ids: Tensor  # int32 (B, R)
    # log P of the tokens under the model, without temperature.
    log_probs: Tensor  # float32 (B, R)


def _sample_loop(
    model: StepModel, inputs: _SampleInputs, num_results: int, top_k: int | None
) -> dict[str, Tensor]:
    """Runs `sample` on tensors, which may be those of a graph.

    The score of a draw whose logits were not finite is nan.
    """
    steps = prepared(model)
    constraints = inputs.constraints
    shape = (ops.shape(inputs.keys)[0], num_results)
    # So that the number of results is known when the graph is traced.
    keys = ops.reshape(inputs.keys, (*shape, 2))

    def step(state: SampleState) -> SampleState:
        """Draws a token for every draw that is not done: `p` -> `p + 1`."""
        position = state.position
        logits, active = decode_active(
            steps, state.active, state.last_token_ids, position
        )  # (A, R, V)
        allowed = forbid(constraints, logits, position, active)
        # The most likely token stays at 0, so nothing overflows at a small
        # temperature; forbidden tokens stay forbidden at a large one.
        largest = ops.max(allowed, axis=-1, keepdims=True)
        tempered = (logits - largest) / inputs.temperature
        token_ids = draw_tokens(
            forbid(constraints, tempered, position, active),
            gumbel_noise(
                active.gather_active(keys), position, logits.shape[-1]
            ),
            top_k,
            inputs.top_p,
        )
        # log P(y_t | y_1 .. y_(t-1), x) = logit(y_t) - log sum of exp(logits),
        # of the model's own logits.
        log_probs = ops.take_along_axis(logits, token_ids[..., None], axis=-1)
        log_probs = log_probs[..., 0] - ops.logsumexp(logits, axis=-1)
        # From here every tensor has rows for all B sentences again.
        token_ids = active.scatter_to_batch(token_ids)
        token_ids = ops.where(state.is_done, 0, token_ids)
        gained = active.scatter_to_batch(log_probs)
        gained = ops.where(state.is_done, 0.0, gained)
        is_done = (
            state.is_done
            # The logits were not finite.
            | ops.isnan(gained)
            | ops.equal(token_ids, END_ID)
            | (position + 1 >= constraints.limits)[:, None]
        )
        return SampleState(
            position=position + 1,
            # A sentence stays active until all of its draws are done.
            active=drop_done(active, ops.all(is_done, axis=1)),
            is_done=is_done,
            token_ids=ops.concatenate(
                [state.token_ids, token_ids[..., None]], axis=2
            ),
            last_token_ids=token_ids,
            log_probs=state.log_probs + gained,
        )

    start = SampleState(
        position=ops.zeros((), "int32"),
        active=start_active(model, constraints.source_token_ids),
        is_done=ops.broadcast_to((constraints.limits <= 0)[:, None], shape),
        token_ids=ops.zeros((*shape, 0), "int32"),
        last_token_ids=ops.full(shape, start_token_id(model), "int32"),
        log_probs=ops.zeros(shape, "float32"),
    )
    end = while_loop(
        lambda state: ops.logical_not(ops.all(state.is_done)), step, start
    )
    return {"token_ids": end.token_ids, "scores": end.log_probs}


def draw_tokens(
    logits: Tensor, noise: Tensor, top_k: int | None, top_p: Tensor | None
) -> Tensor:
    """Draws a token for each row of logits, by the Gumbel-max trick.

    With `G_v` independent standard Gumbel numbers (Gumbel 1954),
    `argmax over v of (logit_v + G_v)` is `v` with probability
    `softmax(logits)_v`.

    Args:
        logits: float tensor `(A, R, V)`.
        noise: float tensor `(A, R, V)`, see `gumbel_noise`.
        top_k: int, or `None`: draw from the `top_k` most likely tokens.
        top_p: float scalar, or `None`: see `sample`.

    Returns:
        Int32 tensor `(A, R)`.
    """
    size = logits.shape[-1]
    token_ids = None
    if top_k is not None or top_p is not None:
        # Sorted, the most likely first, with the noise of each token.
        logits, token_ids = ops.top_k(logits, min(top_k or size, size))
        noise = ops.take_along_axis(noise, token_ids, axis=-1)
    if top_p is not None:
        # Holtzman et al. (2020), eq. 2: the smallest set whose sum is at least
        # p. A token is in it if those before it have not reached p.
        weights = ops.exp(logits - logits[..., :1])
        reached = ops.cumsum(weights, axis=-1)
        is_kept = reached - weights < top_p * reached[..., -1:]
        logits = ops.where(is_kept, logits, IMPOSSIBLE)
    chosen = ops.argmax(logits + noise, axis=-1)
    if token_ids is not None:
        chosen = ops.take_along_axis(token_ids, chosen[..., None], axis=-1)
        chosen = chosen[..., 0]
    return ops.cast(chosen, "int32")


# === Noise, a function of seed, sentence, draw, position and token ===


def noise_keys(
    source_token_ids: np.ndarray, num_results: int, seed: int | None
) -> Tensor:
    """Makes a key for each draw from seed, sentence and number of the draw.

    Args:
        source_token_ids: int array `(B, S)`, padded with id 0.
        num_results: int `R`.
        seed: int, not negative, or `None` for another at each call.

    Returns:
        Int tensor `(B, R, 2)` of 32 bits.
    """
    # `None` draws entropy from the system; other seeds are used as given.
    entropy: Any = np.random.SeedSequence(seed).entropy
    keys = np.zeros((len(source_token_ids), num_results, 2), np.uint32)
    for row, sentence in zip(keys, source_token_ids):
        ids = sentence[sentence != 0].tolist()
        for number in range(num_results):
            sequence = np.random.SeedSequence([entropy, number, *ids])
            row[number] = sequence.generate_state(2)
    return ops.convert_to_tensor(keys.view(_word_dtype()))


def gumbel_noise(keys: Tensor, position: Tensor, num_token_ids: int) -> Tensor:
    """Computes a standard Gumbel number for every possible next token.

    Args:
        keys: int tensor `(..., 2)`, see `noise_keys`.
        position: int scalar.
        num_token_ids: int `V`.

    Returns:
        Float32 tensor `(..., V)`.
    """
    position = ops.cast(position + 1, _word_dtype())
    first = _mixed(keys[..., 0] + position * _word(_NOISE_STEP))[..., None]
    second = keys[..., 1][..., None]
    # Multiples, so that neighbors differ in many bits before mixing.
    token_ids = np.arange(1, num_token_ids + 1, dtype=np.uint64) * _NOISE_STEP
    bits = _mixed(_word(token_ids) + first, second)
    # 31 bits, which a signed integer can hold; near 0 the float is exact.
    uniform = ops.cast(_shifted(bits, 1), "float32") + 0.5
    uniform = ops.minimum(uniform * 2**-31, _MOST_UNIFORM)
    # The inverse of exp(-exp(-g)) at 1 - u, exact for u near 0.
    return -ops.log(-ops.log1p(-uniform))


def _mixed(bits: Tensor, key: Tensor | None = None) -> Tensor:
    """Mixes 32 bits: every bit of the result depends on all of them."""
    bits = ops.bitwise_xor(bits, _shifted(bits, 16)) * _word(_MULTIPLIERS[0])
    if key is not None:
        bits = bits + key
    bits = ops.bitwise_xor(bits, _shifted(bits, 15)) * _word(_MULTIPLIERS[1])
    return ops.bitwise_xor(bits, _shifted(bits, 16))


def _shifted(bits: Tensor, num_bits: int) -> Tensor:
    """Shifts bits to the right, with zeros from the left for any sign."""
    bits = ops.right_shift(bits, _word(num_bits))
    return ops.bitwise_and(bits, _word(2 ** (32 - num_bits) - 1))


def _word(value: int | np.ndarray) -> Tensor:
    """Makes a constant from the lowest 32 bits."""
    word = np.asarray(value).astype(np.uint32).view(_word_dtype())
    return ops.convert_to_tensor(word)


def _word_dtype() -> str:
    # PyTorch cannot compute with unsigned numbers. TensorFlow computes signed
    # 32-bit numbers on the CPU even if there is a GPU.
    return "int32" if keras.backend.backend() == "torch" else "uint32"
