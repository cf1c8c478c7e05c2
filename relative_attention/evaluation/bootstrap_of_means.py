"""Tests whether systems that were trained several times differ."""

import dataclasses
from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from relative_attention.evaluation.bleu_statistics import BleuStatistics
from relative_attention.evaluation.bleu_statistics import bleu_of_counts
from relative_attention.evaluation.paired_bootstrap import check_bootstrap

Seed = TypeVar("Seed")

_CONFIDENCE = 0.95


@dataclasses.dataclass(frozen=True)
class BootstrapDifference:
    """Holds how much better one system is than another, and how sure it is.

    Attributes:
        difference: The mean BLEU of the one minus that of the other.
        low: The lower end of the interval that holds 95 % of the resampled
            differences.
        high: Its upper end.
        p_value: The probability of a difference as great as this one if both
            were equally good.
        num_seeds: How many pairs of runs were compared.
    """

    difference: float
    low: float
    high: float
    p_value: float
    num_seeds: int


def bootstrap_of_means(
    system: Mapping[Seed, BleuStatistics],
    baseline: Mapping[Seed, BleuStatistics],
    num_resamples: int = 1000,
    seed: int = 12345,
) -> BootstrapDifference:
    """Compares two systems, each trained with several seeds.

    Runs of the same seed are a pair, and the mean is over the pairs. Texts as
    long as the test text are drawn from its sentences, with repetition, the
    same for all runs of both systems, as `paired_bootstrap` draws them: what
    is asked is what another test text would have said of these models. How
    much models of other seeds would differ, the standard deviation over seeds
    says.

    # Differs from sacreBLEU: differences keep their sign; there they are made
    positive before their mean is subtracted, which matters where the sign is
    in doubt.

    Args:
        system: dict of seed to `BleuStatistics`.
        baseline: dict of seed to `BleuStatistics`, of the same test text.
            Seeds that only one of the two has are left out.
        num_resamples: int. The number of texts to draw, at least 40. Defaults
            to `1000`.
        seed: int. The seed of the drawing, at least 1. Defaults to `12345`.

    Returns:
        `BootstrapDifference`.

    Raises:
        ValueError: if they have no seed in common, the test texts differ, or a
            number is too small.

    Reference:
     - [Koehn, 2004](https://aclanthology.org/W04-3250)
    """
    check_bootstrap(num_resamples, seed)
    seeds = [name for name in system if name in baseline]
    if not seeds:
        raise ValueError(
            "`system` and `baseline` must have a seed in common. Received: "
            f"{list(system)} and {list(baseline)}."
        )
    pairs = [(system[name], baseline[name]) for name in seeds]
    _check_same_text([statistics for pair in pairs for statistics in pair])
    size = len(pairs[0][0].counts)
    draws = np.random.default_rng(seed).choice(size, (num_resamples, size))
    # How often each resample has each sentence.
    times = np.stack([np.bincount(draw, minlength=size) for draw in draws])
    resampled = np.mean(
        [
            _scores(times @ one.counts) - _scores(times @ other.counts)
            for one, other in pairs
        ],
        axis=0,
    )
    difference = float(
        np.mean([one.bleu() - other.bleu() for one, other in pairs])
    )
    low, high = _interval(resampled)
    return BootstrapDifference(
        difference, low, high, _p_value(resampled, difference), len(pairs)
    )


def _scores(totals: np.ndarray) -> np.ndarray:
    """Returns BLEU of each row of summed counts."""
    return np.array([bleu_of_counts(total) for total in totals])


def _interval(resampled: np.ndarray) -> tuple[float, float]:
    """Returns the least and greatest of the middle 95 %."""
    ordered = np.sort(resampled)
    left_out = int(len(ordered) * (1 - _CONFIDENCE) / 2 + 1e-9)
    return float(ordered[left_out]), float(ordered[-left_out - 1])


def _p_value(resampled: np.ndarray, difference: float) -> float:
    """Returns how often chance alone differs more, as sacreBLEU counts it."""
    if difference == 0:
        return 1.0
    by_chance = np.abs(resampled - resampled.mean())
    greater = int(np.sum(by_chance > abs(difference)))
    return (greater + 1) / (len(resampled) + 1)


def _check_same_text(all_statistics: list[BleuStatistics]) -> None:
    """Refuses counts whose references or signatures differ."""
    first = all_statistics[0]
    for other in all_statistics[1:]:
        if not other.has_text_of(first):
            raise ValueError(
                "The systems must have translated the same test text, and BLEU "
                "must be computed alike. Received: "
                f"{len(first.counts)} sentences ({first.signature}) and "
                f"{len(other.counts)} ({other.signature})."
            )
