"""sacreBLEU's metrics, by name."""

from collections.abc import Sequence

import sacrebleu

from relative_attention.argument_checks import checked_sentences
from relative_attention.did_you_mean import did_you_mean

METRICS = ("bleu", "chrf", "ter")


def sacrebleu_metrics(
    names: Sequence[str],
    lowercase: bool = False,
    tokenize: str = "13a",
    effective_order: bool = False,
) -> dict:
    """The metrics of those names, as sacreBLEU's own command makes them.

    Args:
        names: some of `METRICS`.
        lowercase: Whether BLEU and chrF ignore case; TER, as sacreBLEU has
            it, always does. Its signature says so.
        tokenize: BLEU's tokeniser.
        effective_order: Whether BLEU leaves out n-grams longer than the
            sentence, for scores of single sentences.

    Returns:
        Dict of name to metric, in the order of `names`.

    Raises:
        ValueError: if a name is unknown or there is none.
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
        "bleu": lambda: sacrebleu.metrics.BLEU(
            lowercase=lowercase,
            tokenize=tokenize,
            effective_order=effective_order,
        ),
        "chrf": lambda: sacrebleu.metrics.CHRF(lowercase=lowercase),
        "ter": sacrebleu.metrics.TER,
    }
    return {name: made[name]() for name in names}


def check_lines(
    hypotheses: Sequence[str],
    references: Sequence[str],
    name: str = "hypotheses",
) -> None:
    """Refuse texts that do not stand line by line beside one another.

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
