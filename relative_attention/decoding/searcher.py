"""The search for translations, by one of two kinds of models.

A model of Keras decodes one position at a time (`StepModel`), and the search is
here (`decoding/beam_steps.py`, which is imported with Keras on first use). A
`Searcher` searches by itself, in another engine and without Keras.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any
from typing import Protocol
from typing import runtime_checkable

import numpy as np

from relative_attention.argument_checks import checked_at_least
from relative_attention.argument_checks import checked_number
from relative_attention.decoding.constraints import Constraints
from relative_attention.decoding.constraints import check_num_beams
from relative_attention.decoding.constraints import make_constraints
from relative_attention.errors import InputError
from relative_attention.tensor_type import Tensor

if TYPE_CHECKING:
    from relative_attention.decoding.model_steps import StepModel


@runtime_checkable
class Searcher(Protocol):
    """A model that runs whole searches, such as `CTranslate2Model`."""

    def search(
        self,
        constraints: Constraints,
        *,
        length_penalty: float,
        num_beams: int,
        num_results: int,
        no_repeat_ngram: int,
    ) -> dict[str, np.ndarray]:
        """Returns what `beam_search` does, as arrays.

        Args:
            constraints: `Constraints`, of arrays: the sources `(B, S)`, padded
                with id 0, the longest and the least length of each translation
                `(B,)`, and what it begins with, `(B, P + 1)`. The last two may
                be `None`.
            length_penalty, num_beams, num_results, no_repeat_ngram: see
                `beam_search`, which has checked them.
        """

    def likeliest_tokens(
        self, source: Sequence[int], prefix: Sequence[int], num_tokens: int
    ) -> list[int]:
        """Returns ids of the tokens that most likely follow a prefix.

        Args:
            source: the ids of a source, with its end.
            prefix: the ids that a translation begins with.
            num_tokens: int. The most ids to return.
        """


def check_has_steps(model: Any) -> None:
    """Refuses a `Searcher` where a model of Keras is needed.

    Raises:
        InputError: if the model only searches.
    """
    if isinstance(model, Searcher):
        raise InputError(
            "An engine only searches for translations. Load the model without "
            "`engine` (`--engine`) for samples, probabilities, attention and "
            "exports."
        )


def check_attention(model: Any) -> None:
    """Refuses a model without attention to show, before any work."""
    check_has_steps(model)
    if not hasattr(model, "attention_scores"):
        raise InputError(
            "Attention scores need a single `Transformer`. Received: "
            f"{type(model).__name__}. With an `Ensemble`, use one of its "
            "`models`."
        )


def beam_search(
    model: "StepModel | Searcher",
    source_token_ids: Tensor,
    num_beams: int = 4,
    length_penalty: float = 0.6,
    max_extra_length: int = 50,
    num_results: int = 1,
    max_length: int | None = None,
    min_length: int = 0,
    target_prefix: Tensor | None = None,
    return_attention: bool = False,
    no_repeat_ngram: int = 0,
) -> dict[str, Tensor]:
    """Finds the most probable translations by a beam search.

    A hypothesis of `len` tokens, including the end of sentence, scores
    `log P / ((5 + len) / 6)^length_penalty` (Wu et al. 2016, eq. 14). Beams are
    hypotheses that have not ended. Each step finds the `2 * num_beams` best
    continuations of the beams (with one beam, the best one). Those that end
    join the finished hypotheses; the best `num_beams` of the others become the
    beams. A sentence is done when no beam can overtake its worst result, or at
    its longest length: its own source length plus `max_extra_length`, or
    `max_length` if that is less. A translation does not depend on the other
    sentences in the batch.

    A result may contain id 0, which is padding, as in tensor2tensor. So results
    with different ids may have the same text.

    In tensor2tensor the length limit, and with several results the end of the
    search, depend on the whole batch.

    Args:
        model: `Transformer`, `Ensemble`, or anything with its `start_cache`
            and `decode_step`; or the model of an engine.
        source_token_ids: int tensor `(B, S)`, each row ending with id 1 and
            padded with id 0.
        num_beams: int. Beams per sentence; `1` is greedy search. Defaults to
            `4`.
        length_penalty: float. Exponent alpha; `0.0` compares log-probabilities
            without a penalty. Defaults to `0.6`.
        max_extra_length: int. How much longer than its source a translation
            may be, in tokens; if negative, how much shorter it must be.
            Defaults to `50`.
        num_results: int. Translations per sentence, at most `num_beams`.
            Defaults to `1`.
        max_length: int. The longest translation of any source, in tokens. If
            it stops the search, the best of the hypotheses that ended is the
            result, even an empty text. Defaults to `None`, only limited by
            `max_extra_length`.
        min_length: int. The shortest translation, in tokens, including the end
            of sentence; the longest length takes precedence. Defaults to `0`.
        target_prefix: int array `(B, P)`, padded with id 0: the tokens that
            each translation begins with. They count in its score. A
            translation may always be one token longer than its prefix.
            Defaults to `None`, no prefix.
        return_attention: bool. Also return the cross-attention scores.
            Defaults to `False`.
        no_repeat_ngram: int. No translation repeats a sequence of this many
            tokens, except in its prefix. Defaults to `0`, which allows repeats.

    Returns:
        Dict of `"token_ids"`, int32 `(B, num_results, T)`, best first, each
        ending with id 1 and padded with id 0, and `"scores"`, float32
        `(B, num_results)`. If no hypothesis of a sentence ended, the results
        are its beams, without id 1, and their log-probabilities without
        penalty. If fewer than `num_results` ended, the rest are rows of zeros
        with the score -1e7. With `return_attention` also `"attention"`,
        float32 `(B, num_results, L, N, T, S)`: the cross-attention scores by
        decoder block and head, from each token to the source.

    Raises:
        ValueError: if a number is out of range, or `target_prefix` has
            another number of rows, an id beyond the vocabulary, an id 1, or
            an id after an id 0.
        InputError: if the model gives logits that are not finite (the error
            names the weight or the dtype), or `return_attention` is set for a
            model without attention to return, such as an `Ensemble`.

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
    length_penalty = checked_number(
        "length_penalty",
        length_penalty,
        # The power of a long translation would overflow float32.
        lambda value: 0 <= value <= 10,
        "from 0 to 10",
    )
    no_repeat_ngram = checked_at_least("no_repeat_ngram", no_repeat_ngram, 0)
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
    settings: dict[str, Any] = {
        "length_penalty": length_penalty,
        "num_beams": num_beams,
        "num_results": num_results,
        "no_repeat_ngram": no_repeat_ngram,
    }
    if isinstance(model, Searcher):
        return model.search(constraints, **settings)
    from relative_attention.decoding.beam_steps import search_by_steps

    return search_by_steps(
        model, constraints, **settings, return_attention=return_attention
    )
