"""Computes BLEU with sacreBLEU."""

import dataclasses
from collections.abc import Sequence

from relative_attention.argument_checks import checked_sentences
from relative_attention.evaluation.moses_tokenizer import bleu_metric


@dataclasses.dataclass(frozen=True)
class Bleu:
    """Holds a BLEU score with all that is needed to compare it.

    Attributes:
        score: The BLEU score, 0 to 100.
        signature: sacreBLEU's signature: its version and every choice made.
    """

    score: float
    signature: str

    def __str__(self) -> str:
        return f"BLEU {self.score:.2f} ({self.signature})"


def corpus_bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    lowercase: bool = False,
    tokenize: str = "13a",
) -> Bleu:
    """Computes BLEU of translations against one reference each.

    Args:
        hypotheses: list of strings, detokenised.
        references: list of strings, as many.
        lowercase: bool. Whether to ignore case. Defaults to `False`.
        tokenize: string. The name of a tokeniser, see `corpus_scores`.
            Defaults to `"13a"`, that of the WMT evaluations.

    Returns:
        `Bleu`.

    Raises:
        TypeError: if one of them is no list of strings.
        ValueError: if the numbers of lines differ or there is none.
        InputError: if Moses' tokeniser is asked for and cannot be had.

    Reference:
     - [Post, 2018](https://arxiv.org/abs/1804.08771)
    """
    hypotheses = checked_sentences("hypotheses", hypotheses)
    references = checked_sentences("references", references)
    if len(hypotheses) != len(references) or not references:
        raise ValueError(
            "`hypotheses` and `references` must have the same number of "
            f"lines, at least one. Received: {len(hypotheses)} and "
            f"{len(references)}."
        )
    metric = bleu_metric(lowercase, tokenize, effective_order=False)
    score = metric.corpus_score(hypotheses, [references])
    return Bleu(score.score, metric.get_signature().format())
