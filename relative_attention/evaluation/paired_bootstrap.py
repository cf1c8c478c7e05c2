"""Tests whether one text is better than another, or was lucky."""

import contextlib
import dataclasses
import logging
import os
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from sacrebleu.significance import PairedTest

from relative_attention.evaluation.sacrebleu_metrics import METRICS
from relative_attention.evaluation.sacrebleu_metrics import check_lines
from relative_attention.evaluation.sacrebleu_metrics import sacrebleu_metrics

# A 95 % interval leaves out a fortieth of the resamples at either end.
_LEAST_RESAMPLES = 40


@dataclasses.dataclass(frozen=True)
class BootstrapResult:
    """Holds a system's score, how sure it is, and whether it beats the first.

    Attributes:
        system: The name of the system.
        name: The name that sacreBLEU gives the metric: BLEU, chrF2 or TER.
        score: The score of the whole text.
        mean: The mean score of the resamples.
        interval: Half the width of the interval that holds 95 % of them.
        p_value: The probability of a difference from the first system as
            great as this one if both were equally good; `None` for the first
            system.
        signature: sacreBLEU's signature, with the number of resamples (`bs`)
            and the `seed`.
    """

    system: str
    name: str
    score: float
    mean: float
    interval: float
    p_value: float | None
    signature: str


def paired_bootstrap(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[str],
    metrics: Sequence[str] = METRICS,
    num_resamples: int = 1000,
    seed: int = 12345,
    lowercase: bool = False,
    tokenize: str = "13a",
) -> dict[str, list[BootstrapResult]]:
    """Compares systems with the first of them by paired bootstrap resampling.

    Texts as long as the references are drawn from their lines, with
    repetition, the same lines for every system; how often two systems differ
    by chance there says whether the difference of their scores means
    anything. The numbers are those of `sacrebleu --paired-bs`.

    # Differs from sacreBLEU: with the very score of the first system the
    # p-value is 1; there it is the least possible, 1 / (num_resamples + 1).

    Args:
        systems: dict of name to list of strings, detokenised. The first is
            what the others are compared with.
        references: list of strings, as many as each system has.
        metrics: list of names among `"bleu"`, `"chrf"` and `"ter"`. Defaults
            to all.
        num_resamples: int. The number of texts to draw, at least 40. Defaults
            to `1000`.
        seed: int. The seed of the drawing, at least 1. Defaults to `12345`,
            as sacreBLEU's, whatever `SACREBLEU_SEED` says.
        lowercase: as for `corpus_scores`.
        tokenize: as for `corpus_scores`.

    Returns:
        Dict of metric to a list of `BootstrapResult`, one for each system, in
        their order.

    Raises:
        ValueError: if there are fewer than two systems, their numbers of
            lines differ, a metric is unknown, or a number is too small.

    Example:
    >>> results = paired_bootstrap(
    ...     {"baseline": baseline, "relative": relative}, references
    ... )
    >>> results["bleu"][1].p_value
    0.003

    Reference:
     - [Koehn, 2004](https://aclanthology.org/W04-3250)
    """
    check_bootstrap(num_resamples, seed)
    scorers = sacrebleu_metrics(metrics, lowercase, tokenize)
    if len(systems) < 2:
        raise ValueError(
            "`systems` must hold at least two: the first and what is compared "
            f"with it. Received: {list(systems)}."
        )
    for system, hypotheses in systems.items():
        check_lines(hypotheses, references, f"systems[{system!r}]")
    with _quiet(), _sacrebleu_seed(seed):
        signatures: Any
        scores: Any
        signatures, scores = PairedTest(
            [(name, list(lines)) for name, lines in systems.items()],
            scorers,
            [list(references)],
            test_type="bs",
            n_samples=num_resamples,
        )()
    # sacreBLEU names its columns itself, in the order of the metrics.
    return {
        metric: [
            BootstrapResult(
                system,
                column,
                result.score,
                float(result.mean),
                float(result.ci),
                _p_value(result, scores[column][0]),
                str(signatures[column].format()),
            )
            for system, result in zip(systems, scores[column])
        ]
        for metric, column in zip(scorers, signatures)
    }


def check_bootstrap(num_resamples: int = 1000, seed: int = 12345) -> None:
    """Refuses numbers that `paired_bootstrap` could do nothing with.

    Raises:
        ValueError: if one is too small.
    """
    for name, value, least in (
        ("num_resamples", num_resamples, _LEAST_RESAMPLES),
        # sacreBLEU takes 0 for no seed at all, and draws another each time.
        ("seed", seed, 1),
    ):
        if value < least:
            raise ValueError(
                f"`{name}` must be at least {least}. Received: {name}={value}."
            )


def _p_value(result: Any, first: Any) -> float | None:
    """Returns the p-value of a system, `None` for the first one."""
    if result is first:
        return None
    # Resamples that differ no more than their mean count for nothing there,
    # so that equal texts would be told apart with certainty.
    return 1.0 if result.score == first.score else result.p_value


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps sacreBLEU from logging an account of its steps."""
    logger = logging.getLogger("sacrebleu")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def _sacrebleu_seed(seed: int) -> Iterator[None]:
    """Sets the seed in the environment, the one way that sacreBLEU takes it."""
    before = os.environ.get("SACREBLEU_SEED")
    os.environ["SACREBLEU_SEED"] = str(seed)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SACREBLEU_SEED"]
        else:
            os.environ["SACREBLEU_SEED"] = before
