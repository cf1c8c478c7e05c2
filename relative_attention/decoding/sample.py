"""Translations drawn at random from the model's distribution."""

from keras import ops

from relative_attention.argument_checks import checked_at_least
from relative_attention.argument_checks import checked_number
from relative_attention.decoding.alignment import alignment
from relative_attention.decoding.alignment import check_attention
from relative_attention.decoding.constraint_tensors import constraint_tensors
from relative_attention.decoding.finite_model import check_numbers
from relative_attention.decoding.gumbel_noise import noise_keys
from relative_attention.decoding.run_compiled import run_compiled
from relative_attention.decoding.sample_loop import SampleInputs
from relative_attention.decoding.sample_loop import sample_loop
from relative_attention.decoding.step_model import StepModel
from relative_attention.tensor_type import Tensor

# Beyond these the likeliest token alone is drawn, or any alike; float32 has
# numbers for what is divided by them.
_LEAST_TEMPERATURE = 1e-30
_MOST_TEMPERATURE = 1e30


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

    Of the tokens at a position that with the largest sum of its logit, over
    the temperature, and a number of a Gumbel distribution is drawn. That
    number depends on the seed, the source sentence, the number of the result,
    the position and the token alone, so what a sentence gets does not depend
    on the others in the batch. Logits do, in their last digits, as products
    of matrices round them: where two sums are equal to about 1e-6, once in
    some million tokens, either may be drawn.

    Args:
        model: `Transformer` or `Ensemble`.
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
        InputError: if the model gives logits that are not finite, or has no
            attention to return, see `beam_search`.

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
    if return_attention:
        check_attention(model)
    constraints = constraint_tensors(
        source_token_ids,
        max_extra_length=max_extra_length,
        max_length=max_length,
        min_length=min_length,
        target_prefix=target_prefix,
        config=getattr(model, "config", None),
    )
    source_token_ids = constraints.source_token_ids
    temperature = min(max(temperature, _LEAST_TEMPERATURE), _MOST_TEMPERATURE)
    results = run_compiled(
        sample_loop,
        model,
        SampleInputs(
            constraints=constraints,
            keys=noise_keys(
                ops.convert_to_numpy(source_token_ids), num_results, seed
            ),
            temperature=_scalar(temperature),
            top_p=None if top_p is None else _scalar(top_p),
        ),
        num_results=num_results,
        top_k=top_k,
    )
    check_numbers(model, results["scores"])
    if return_attention:
        results["attention"] = alignment(
            model, source_token_ids, results["token_ids"]
        )
    return results


def _scalar(value: float) -> Tensor:
    return ops.convert_to_tensor(value, "float32")
