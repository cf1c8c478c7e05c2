"""Computes BLEU, chrF and TER of each sentence with sacreBLEU."""

from collections.abc import Sequence

from relative_attention.evaluation.sacrebleu_metrics import METRICS
from relative_attention.evaluation.sacrebleu_metrics import check_lines
from relative_attention.evaluation.sacrebleu_metrics import sacrebleu_metrics


def sentence_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    metrics: Sequence[str] = METRICS,
    lowercase: bool = False,
    tokenize: str = "13a",
) -> dict[str, list[float]]:
    """Scores each translation against its reference.

    The scores find the sentences that are worth a look; their mean is not the
    score of the text. BLEU leaves out n-grams longer than the sentence
    (sacreBLEU's effective order), else short sentences would all score next
    to nothing.

    Args:
        hypotheses: list of strings, detokenised.
        references: list of strings, as many.
        metrics: list of names among `"bleu"`, `"chrf"` and `"ter"`. Defaults
            to all.
        lowercase: as for `corpus_scores`.
        tokenize: as for `corpus_scores`.

    Returns:
        Dict of metric to a list of float, one for each sentence.

    Raises:
        ValueError: if the numbers of lines differ, there is none, or a metric
            is unknown.
    """
    scorers = sacrebleu_metrics(
        metrics, lowercase, tokenize, effective_order=True
    )
    check_lines(hypotheses, references)
    return {
        name: [
            scorer.sentence_score(hypothesis, [reference]).score
            for hypothesis, reference in zip(hypotheses, references)
        ]
        for name, scorer in scorers.items()
    }
