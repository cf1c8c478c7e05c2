"""Makes sacreBLEU's metrics by their names."""

from collections.abc import Sequence

import sacrebleu

from relative_attention.argument_checks import checked_sentences
from relative_attention.did_you_mean import did_you_mean
from relative_attention.evaluation.moses_tokenizer import bleu_metric

METRICS = ("bleu", "chrf", "ter")


def sacrebleu_metrics(
    names: Sequence[str],
    lowercase: bool = False,
    tokenize: str = "13a",
    effective_order: bool = False,
) -> dict:
    """Returns the metrics of those names, as sacreBLEU's command makes them.

    Args:
        names: list of strings. Some of `METRICS`.
        lowercase: bool. Whether BLEU and chrF ignore case; TER, as sacreBLEU
            has it, always does, and its signature says so. Defaults to
            `False`.
        tokenize: string. The name of BLEU's tokeniser, see `corpus_scores`.
            Defaults to `"13a"`.
        effective_order: bool. Whether BLEU leaves out n-grams longer than the
            sentence, for scores of single sentences. Defaults to `False`.

    Returns:
        Dict of name to metric, in the order of `names`.

    Raises:
        ValueError: if a name is unknown or there is none.
        InputError: if Moses' tokeniser cannot be had.
    """
    if isinstance(names, str) or not names:
        raise ValueError(
            "`metrics` must be a list of one or more of "
            f"{', '.join(METRICS)}. Received: {names!r}."
        )
    for name in names:
        if name not in METRICS:
            raise ValueError(
                f"Unknown metric {name!r}."
                f"{did_you_mean(str(name).lower(), METRICS)} "
                f"Known: {', '.join(METRICS)}."
            )
    made = {
        "bleu": lambda: bleu_metric(lowercase, tokenize, effective_order),
        "chrf": lambda: sacrebleu.metrics.CHRF(lowercase=lowercase),
        "ter": sacrebleu.metrics.TER,
    }
    return {name: made[name]() for name in names}


def check_lines(
    hypotheses: Sequence[str],
    references: Sequence[str],
    name: str = "hypotheses",
) -> None:
    """Refuses texts that do not stand line by line beside one another.

    Raises:
        TypeError: if one of them is no list of strings.
        ValueError: if the numbers of lines differ or there is none.
    """
    checked_sentences(name, hypotheses)
    checked_sentences("references", references)
    if len(hypotheses) != len(references) or not len(references):
        raise ValueError(
            f"`{name}` and `references` must have the same number of lines, "
            f"at least one. Received: {len(hypotheses)} and {len(references)}."
        )
