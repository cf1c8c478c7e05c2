"""Beam search with GNMT's length penalty."""

from keras import ops

from relative_attention.argument_checks import checked_at_least
from relative_attention.decoding.alignment import alignment
from relative_attention.decoding.alignment import check_attention
from relative_attention.decoding.beam_search_loop import BeamInputs
from relative_attention.decoding.beam_search_loop import beam_search_loop
from relative_attention.decoding.beam_settings import check_length_penalty
from relative_attention.decoding.beam_settings import check_num_beams
from relative_attention.decoding.constraint_tensors import constraint_tensors
from relative_attention.decoding.finite_model import check_numbers
from relative_attention.decoding.jax_beam_search import compiles_on_jax
from relative_attention.decoding.jax_beam_search import jax_beam_search
from relative_attention.decoding.run_compiled import run_compiled
from relative_attention.decoding.step_model import StepModel
from relative_attention.tensor_type import Tensor


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
    `log P / ((5 + len) / 6)^length_penalty` (Wu et al. 2016, eq. 14). At each
    step the `2 * num_beams` best continuations of the `num_beams` beams, the
    hypotheses that have not ended, are looked at (the best one, with one
    beam): those that end join the finished hypotheses, the best `num_beams`
    of the others become the beams. A sentence is done when no beam can still
    overtake its worst result, or at its longest length, its own source length
    plus `max_extra_length`, or `max_length`. What a sentence gets does not
    depend on the others in the batch.

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
        its beams, which lack the id 1, and their log-probabilities,
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
    constraints = constraint_tensors(
        source_token_ids,
        max_extra_length=max_extra_length,
        max_length=max_length,
        min_length=min_length,
        target_prefix=target_prefix,
        config=getattr(model, "config", None),
    )
    inputs = BeamInputs(
        constraints=constraints,
        length_penalty=ops.convert_to_tensor(length_penalty, "float32"),
    )
    sizes = {"num_beams": num_beams, "num_results": num_results}
    if compiles_on_jax(model):
        results = jax_beam_search(model, inputs, **sizes)
    else:
        results = run_compiled(beam_search_loop, model, inputs, **sizes)
    check_numbers(model, results["scores"])
    if return_attention:
        results["attention"] = alignment(
            model, constraints.source_token_ids, results["token_ids"]
        )
    return results
