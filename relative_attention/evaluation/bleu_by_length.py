"""Computes BLEU of short and of long sentences with sacreBLEU."""

import bisect
import dataclasses
from collections.abc import Sequence

from relative_attention.evaluation.corpus_scores import corpus_scores
from relative_attention.evaluation.sacrebleu_metrics import check_lines

_NUM_BUCKETS = 8


@dataclasses.dataclass(frozen=True)
class LengthScore:
    """Holds BLEU of the sentences of about one length.

    Attributes:
        least: The number of words of the shortest source among them.
        most: The number of words of the longest.
        mean: The mean number of words of their sources.
        num_sentences: The number of sentences.
        bleu: The BLEU score of them all as one text, 0 to 100.
    """

    least: int
    most: int
    mean: float
    num_sentences: int
    bleu: float


def bleu_by_length(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    boundaries: Sequence[int] | None = None,
    lowercase: bool = False,
    tokenize: str = "13a",
) -> list[LengthScore]:
    """Computes BLEU by the length of the source.

    The sentences are put into buckets by the number of words, between blanks,
    of their sources; each bucket is scored as a text of its own. BLEU of few
    sentences says little: the buckets are made about equally large.

    Args:
        sources: list of strings, what was translated.
        hypotheses: list of strings, as many, detokenised.
        references: list of strings, as many.
        boundaries: list of rising ints, the most words of each bucket but the
            last, which has all that are longer. Defaults to `None`: at most
            eight buckets of about equally many sentences, where sentences of
            one length stay together.
        lowercase: as for `corpus_scores`.
        tokenize: as for `corpus_scores`.

    Returns:
        List of `LengthScore`, the shortest first, without empty buckets.

    Raises:
        ValueError: if the numbers of lines differ, there is none, or
            `boundaries` do not rise.

    Example:
    >>> for score in bleu_by_length(sources, hypotheses, references, [10, 20]):
    ...     print(f"{score.least} to {score.most} words: {score.bleu:.1f}")
    """
    check_lines(sources, references, "sources")
    check_lines(hypotheses, references)
    lengths = [len(source.split()) for source in sources]
    if boundaries is None:
        boundaries = _equal_boundaries(lengths)
    if any(a >= b for a, b in zip(boundaries, boundaries[1:])):
        raise ValueError(
            "`boundaries` must rise: the most words of each bucket but the "
            f"last. Received: {list(boundaries)}."
        )
    # The numbers of the lines in each bucket.
    buckets: dict[int, list[int]] = {}
    for line, length in enumerate(lengths):
        bucket = bisect.bisect_left(boundaries, length)
        buckets.setdefault(bucket, []).append(line)
    scores = []
    for _, lines in sorted(buckets.items()):
        score = corpus_scores(
            [hypotheses[line] for line in lines],
            [references[line] for line in lines],
            ["bleu"],
            lowercase,
            tokenize,
        )["bleu"].score
        words = [lengths[line] for line in lines]
        mean = sum(words) / len(words)
        scores.append(
            LengthScore(min(words), max(words), mean, len(words), score)
        )
    return scores


def _equal_boundaries(lengths: Sequence[int]) -> list[int]:
    """Returns the octiles of the lengths, each once."""
    in_order = sorted(lengths)
    ends = [
        in_order[len(lengths) * number // _NUM_BUCKETS]
        for number in range(1, _NUM_BUCKETS)
    ]
    return sorted(set(ends))
