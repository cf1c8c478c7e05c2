"""Computes BLEU, chrF and TER of a whole text with sacreBLEU."""

import dataclasses
from collections.abc import Sequence

from relative_attention.evaluation.sacrebleu_metrics import METRICS
from relative_attention.evaluation.sacrebleu_metrics import check_lines
from relative_attention.evaluation.sacrebleu_metrics import sacrebleu_metrics


@dataclasses.dataclass(frozen=True)
class CorpusScore:
    """Holds a score of a text with all that is needed to compare it.

    Attributes:
        name: The name that sacreBLEU gives the metric: BLEU, chrF2 or TER. A
            lower TER is better.
        score: The score, 0 to 100; TER may be more.
        signature: sacreBLEU's signature: its version and every choice made.
    """

    name: str
    score: float
    signature: str

    def __str__(self) -> str:
        return f"{self.name} {self.score:.2f} ({self.signature})"


def corpus_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    metrics: Sequence[str] = METRICS,
    lowercase: bool = False,
    tokenize: str = "13a",
) -> dict[str, CorpusScore]:
    """Scores translations against one reference each.

    Args:
        hypotheses: list of strings, detokenised.
        references: list of strings, as many.
        metrics: list of names among `"bleu"`, `"chrf"` and `"ter"`. Defaults
            to all.
        lowercase: bool. Whether BLEU and chrF ignore case; TER, as sacreBLEU
            has it, always does. Defaults to `False`.
        tokenize: string. The name of sacreBLEU's tokeniser for BLEU; or
            `"moses-de"`, `"moses-fr"` and so on for Moses' of that language,
            which many papers have, most of them lowercased. Defaults to
            `"13a"`, that of the WMT evaluations.

    Returns:
        Dict of metric to `CorpusScore`, in the order of `metrics`.

    Raises:
        ValueError: if the numbers of lines differ, there is none, or a metric
            is unknown.
        InputError: if `sacremoses` is not installed or does not know the
            language.

    Example:
    >>> for score in corpus_scores(hypotheses, references).values():
    ...     print(score)
    BLEU 40.47 (nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0)
    chrF2 64.91 (nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0)
    TER 42.05 (nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:...

    Reference:
     - [Papineni et al., 2002](https://aclanthology.org/P02-1040)
     - [Popović, 2015](https://aclanthology.org/W15-3049)
     - [Snover et al., 2006](https://aclanthology.org/2006.amta-papers.25)
     - [Post, 2018](https://arxiv.org/abs/1804.08771)
    """
    scorers = sacrebleu_metrics(metrics, lowercase, tokenize)
    check_lines(hypotheses, references)
    scores = {}
    for name, scorer in scorers.items():
        score = scorer.corpus_score(hypotheses, [references])
        scores[name] = CorpusScore(
            score.name, score.score, scorer.get_signature().format()
        )
    return scores
