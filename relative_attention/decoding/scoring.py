"""The probability that a model gives to known translations."""

import dataclasses
import math
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from relative_attention.argument_checks import checked_sentences
from relative_attention.decoding.compiled import run_compiled
from relative_attention.decoding.constraints import padded_rows
from relative_attention.decoding.model_steps import check_numbers
from relative_attention.decoding.model_steps import start_token_id
from relative_attention.decoding.searcher import check_has_steps
from relative_attention.decoding.translator import Translator
from relative_attention.decoding.translator import longest_first_batches
from relative_attention.errors import InputError
from relative_attention.models.transformer import decoder_inputs
from relative_attention.ops.cross_entropy import score_logits
from relative_attention.tensor_type import Tensor

# Most logits of a batch, whatever its tokens: 256 MB in float32.
_MAX_LOGITS = 2**26
# Lines that an error names; others are only counted.
_LINES_NAMED = 5


@dataclasses.dataclass(frozen=True)
class TranslationScore:
    """How probable the model finds a translation.

    Attributes:
        log_probability: Natural logarithm of the probability of all its
            tokens, including the end of sentence, given the source.
        num_tokens: Number of these tokens.
        token_ids: The ids of these tokens, if they were asked for.
        token_log_probabilities: The natural logarithm of the probability of
            each, given the source and the tokens before it.
    """

    log_probability: float
    num_tokens: int
    token_ids: tuple[int, ...] | None = None
    token_log_probabilities: tuple[float, ...] | None = None

    @property
    def perplexity(self) -> float:
        """The inverse of the geometric mean of the token probabilities."""
        return _perplexity(self.log_probability, self.num_tokens)


def score_translations(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    report: Callable[[int], Any] | None = None,
    return_tokens: bool = False,
) -> list[TranslationScore]:
    """Scores given translations from any source.

    Pairs are sorted by length and scored in batches of about the same number
    of tokens, fewer for large vocabularies. Scores are returned in the order of
    the pairs. The score of a pair does not depend on the others. The text is
    encoded again: if a beam search found the same text in other pieces, its
    score was different.

    Nothing is cut, as part of a sentence has another probability. A source over
    `translator.max_source_length` tokens is an error, and so is a translation
    over `max_source_length + max_extra_length` tokens, the longest that the
    translator could give. An empty translation has the probability of its end
    of sentence.

    Args:
        translator: `Translator`.
        sources: list of strings.
        targets: list of strings; `targets[n]` translates `sources[n]`.
        report: called after each batch with the number of pairs scored so
            far.
        return_tokens: bool. Also return the ids and log-probabilities of the
            tokens. Defaults to `False`.

    Returns:
        List of `TranslationScore`, one per pair, in their order.

    Raises:
        TypeError: if `sources` or `targets` is not a list of strings.
        ValueError: if their numbers differ, or a string is not valid text.
        InputError: if a sentence is too long (the error names its line), or
            the model gives logits that are not finite.

    Example:
    >>> translator = ra.load_translator("tatoeba_en_de")
    >>> right, wrong = ra.score_translations(
    ...     translator, ["I like tea."] * 2, ["Ich mag Tee.", "Ein Hund."]
    ... )
    >>> right.perplexity < wrong.perplexity
    True
    """
    check_has_steps(translator.model)
    sources = checked_sentences("sources", sources)
    targets = checked_sentences("targets", targets)
    if len(sources) != len(targets):
        raise ValueError(
            "`sources` and `targets` must have the same number of sentences. "
            f"Received: {len(sources)} and {len(targets)}."
        )
    source_rows, target_rows = (
        [[*row, vocabulary.end_id] for row in vocabulary.encode(sentences)]
        for vocabulary, sentences in (
            (translator.source_vocabulary, sources),
            (translator.vocabulary, targets),
        )
    )
    longest = translator.max_source_length
    _check_lengths("sources", source_rows, longest)
    _check_lengths(
        "targets", target_rows, longest + translator.max_extra_length
    )
    lengths = {
        index: (max(len(source), len(target)), len(target), len(source))
        for index, (source, target) in enumerate(zip(source_rows, target_rows))
    }
    vocabulary_size = translator.model.config.vocabulary_size
    max_tokens = min(translator.batch_tokens, _MAX_LOGITS // vocabulary_size)
    scores: dict[int, TranslationScore] = {}
    for batch in longest_first_batches(lengths, max_tokens):
        rows = _score_batch(
            translator.model,
            padded_rows([source_rows[index] for index in batch]),
            padded_rows([target_rows[index] for index in batch]),
        )
        for index, row in zip(batch, rows):
            token_ids = target_rows[index]
            row = row[: len(token_ids)]
            tokens = (tuple(token_ids), tuple(row.tolist()))
            scores[index] = TranslationScore(
                float(row.sum()),
                len(token_ids),
                *(tokens if return_tokens else ()),
            )
        if report is not None:
            report(len(scores))
    return [scores[index] for index in range(len(scores))]


def corpus_perplexity(scores: Sequence[TranslationScore]) -> float:
    """Computes the perplexity per token over many translations.

    Args:
        scores: list of `TranslationScore`.

    Returns:
        float. The exponential of the mean negative log-probability of all
        tokens, which differs from the mean perplexity of the sentences.

    Raises:
        ValueError: if there is no score.
    """
    if not scores:
        raise ValueError("`scores` must hold at least one. Received: [].")
    return _perplexity(
        math.fsum(score.log_probability for score in scores),
        sum(score.num_tokens for score in scores),
    )


def _perplexity(log_probability: float, num_tokens: int) -> float:
    try:
        return math.exp(-log_probability / num_tokens)
    except OverflowError:
        return math.inf


def _check_lengths(name: str, rows: list[list[int]], longest: int) -> None:
    lines = [n for n, row in enumerate(rows, start=1) if len(row) > longest]
    if not lines:
        return
    named = ", ".join(f"{line:,}" for line in lines[:_LINES_NAMED])
    more = len(lines) - _LINES_NAMED
    raise InputError(
        f"`{name}` must have at most {longest} tokens each, the end of "
        "sentence included; part of a sentence has another probability. "
        f"Received: {len(rows[lines[0] - 1]):,} tokens on line {lines[0]:,}; "
        f"too long: line {named}{f' and {more:,} more' if more > 0 else ''}. "
        "Leave these out, or raise `max_source_length` (in a model's folder, "
        "`decoding` in config.json)."
    )


def _score_batch(
    model: Any, source_token_ids: np.ndarray, labels: np.ndarray
) -> np.ndarray:
    """Computes log-probabilities of labels: `(B, S)`, `(B, T)` -> `(B, T)`."""
    pairs = (source_token_ids, labels)
    log_probs = run_compiled(
        _label_log_probabilities,
        model,
        tuple(map(ops.convert_to_tensor, pairs)),
    )
    # In float64, so that a sum is as exact as its terms.
    log_probs = ops.convert_to_numpy(log_probs).astype("float64")
    log_probs = np.where(labels != 0, log_probs, 0)
    check_numbers(model, log_probs)
    return log_probs


def _label_log_probabilities(
    model: Any, pairs: tuple[Tensor, Tensor]
) -> Tensor:
    """Computes the log-probability of every label, also padding: `(B, T)`."""
    source_token_ids, labels = pairs
    logits = model(
        {
            "source_token_ids": source_token_ids,
            "target_token_ids": decoder_inputs(labels, start_token_id(model)),
        },
        training=False,
    )
    return -score_logits(logits, labels).negative_log_likelihoods
