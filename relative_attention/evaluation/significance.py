"""Tests whether one system is better than another by more than chance.

`paired_bootstrap` compares the translations of single models, with the numbers
of `sacrebleu --paired-bs`. `bootstrap_of_means` compares systems that were
trained with several seeds, using only the counts of `BleuStatistics`.
"""

import base64
import contextlib
import dataclasses
import logging
import os
import zlib
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import TypeVar

import numpy as np
import sacrebleu
import tabulate
from sacrebleu.significance import PairedTest

from relative_attention.argument_checks import checked_at_least
from relative_attention.evaluation.scores import METRICS
from relative_attention.evaluation.scores import checked_lines
from relative_attention.evaluation.scores import sacrebleu_metrics

Seed = TypeVar("Seed")

# A 95 % interval leaves out one in forty resamples at either end.
_LEAST_RESAMPLES = 40
_SIGNIFICANT = 0.05
# sacreBLEU's counts: lengths of translation and reference, correct n-grams of
# one to four tokens, and all n-grams.
_NUM_COUNTS = 10
# Little-endian on every machine. Most high bytes are 0, which compress well.
_STORED = "<u2"


@dataclasses.dataclass(frozen=True)
class BootstrapResult:
    """A system's score, its uncertainty, and whether it beats the first.

    Attributes:
        system: The name of the system.
        name: sacreBLEU's name of the metric: BLEU, chrF2 or TER.
        score: The score of the whole text.
        mean: The mean score of the resamples.
        interval: Half the width of the interval that contains 95 % of them.
        p_value: The probability of at least this difference from the first
            system if both were equally good; `None` for the first system.
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

    Texts of the same number of lines are drawn with replacement, the same lines
    for every system. The spread of the differences in these texts shows whether
    the difference of the scores could be chance. The numbers are those of
    `sacrebleu --paired-bs`.

    # Differs from sacreBLEU: a system with exactly the score of the first has
    the p-value 1; sacreBLEU gives the lowest, 1 / (num_resamples + 1).

    Args:
        systems: dict of name to list of strings, detokenized. Each is compared
            with the first.
        references: list of strings, one for each line of a system.
        metrics: list of names among `"bleu"`, `"chrf"` and `"ter"`. Defaults
            to all.
        num_resamples: int. The number of texts to draw, at least 40. Defaults
            to `1000`.
        seed: int. The random seed, at least 1. Defaults to `12345`, as in
            sacreBLEU; `SACREBLEU_SEED` is ignored.
        lowercase: as for `corpus_scores`.
        tokenize: as for `corpus_scores`.

    Returns:
        Dict of metric to a list of `BootstrapResult`, one for each system, in
        their order.

    Raises:
        TypeError: if the texts are not lists of strings.
        ValueError: if there are fewer than two systems, their numbers of
            lines differ, a metric is unknown, or a number is too small.
        InputError: if Moses' tokenizer is requested and not available.

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
            "`systems` must hold at least two: the first and those to compare "
            f"with it. Received: {list(systems)}."
        )
    for system, hypotheses in systems.items():
        checked_lines(hypotheses, references, f"systems[{system!r}]")
    with _sacrebleu_settings(seed):
        signatures: Any
        scores: Any
        signatures, scores = PairedTest(
            [(name, list(lines)) for name, lines in systems.items()],
            scorers,
            [list(references)],
            test_type="bs",
            n_samples=num_resamples,
        )()
    # sacreBLEU chooses the names of columns, in the order of the metrics.
    return {
        metric: [
            BootstrapResult(
                system,
                column,
                result.score,
                float(result.mean),
                float(result.ci),
                _paired_p_value(result, scores[column][0]),
                str(signatures[column].format()),
            )
            for system, result in zip(systems, scores[column])
        ]
        for metric, column in zip(scorers, signatures)
    }


def check_bootstrap(num_resamples: int = 1000, seed: int = 12345) -> None:
    """Raises `ValueError` if a number is too small for a bootstrap."""
    checked_at_least("num_resamples", num_resamples, _LEAST_RESAMPLES)
    # For sacreBLEU, 0 means no seed, so texts would change each time.
    checked_at_least("seed", seed, 1)


def _paired_p_value(result: Any, first: Any) -> float | None:
    if result is first:
        return None
    # sacreBLEU only counts resamples that differ by more than their mean, so
    # two equal texts would differ with certainty.
    return 1.0 if result.score == first.score else result.p_value


@contextlib.contextmanager
def _sacrebleu_settings(seed: int) -> Iterator[None]:
    """Sets sacreBLEU's seed, and silences its log."""
    logger = logging.getLogger("sacrebleu")
    level = logger.level
    # sacreBLEU reads the seed only from the environment.
    before = os.environ.get("SACREBLEU_SEED")
    try:
        logger.setLevel(logging.ERROR)
        os.environ["SACREBLEU_SEED"] = str(seed)
        yield
    finally:
        logger.setLevel(level)
        if before is None:
            del os.environ["SACREBLEU_SEED"]
        else:
            os.environ["SACREBLEU_SEED"] = before


def bootstrap_table(results: Mapping[str, Sequence[BootstrapResult]]) -> str:
    """Returns the results of `paired_bootstrap` as a table.

    It has a row for each metric and system, and the signatures below. A star
    marks a p-value below 0.05.
    """
    rows = [_table_row(one) for systems in results.values() for one in systems]
    lines = [
        tabulate.tabulate(
            rows,
            headers=("metric", "system", "score", "mean ± 95 %", "p", ""),
            tablefmt="plain",
            colalign=("left", "left", "right", "right", "right", "left"),
            # Cells are strings, which tabulate must not format again.
            disable_numparse=True,
        )
    ]
    first = next(iter(results.values()))[0].system
    lines.append(
        f"p: how probable so great a difference from {first} is by chance; "
        f"*: under {_SIGNIFICANT}"
    )
    for systems in results.values():
        lines.append(f"{systems[0].name} ({systems[0].signature})")
    return "\n".join(lines)


def _table_row(result: BootstrapResult) -> tuple[str, ...]:
    p_value = star = ""
    if result.p_value is not None:
        p_value = f"{result.p_value:.4f}"
        star = "*" if result.p_value < _SIGNIFICANT else ""
    return (
        result.name,
        result.system,
        f"{result.score:.2f}",
        f"{result.mean:.2f} ± {result.interval:5.2f}",
        p_value,
        star,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class BleuStatistics:
    """The counts from which BLEU is computed, sentence by sentence.

    A thousand sentences take a few kilobytes. The text cannot be restored from
    them, so they may be stored even if the text may not.

    Attributes:
        counts: Integer array `(sentences, 10)`: the length of the translation
            and of the reference in tokens; the correct n-grams of one to four
            tokens; all n-grams of one to four tokens.
        signature: sacreBLEU's signature.
    """

    counts: np.ndarray
    signature: str

    @classmethod
    def of_texts(
        cls, hypotheses: Sequence[str], references: Sequence[str]
    ) -> "BleuStatistics":
        """Counts in translations with one reference each, as `corpus_bleu`."""
        hypotheses, references = checked_lines(hypotheses, references)
        metric = sacrebleu_metrics(["bleu"])["bleu"]
        # sacreBLEU's own significance tests start from these counts.
        counts = metric._extract_corpus_statistics(hypotheses, [references])
        # The signature is complete only after a text has been scored.
        metric.corpus_score(hypotheses, [references])
        return cls(np.array(counts), metric.get_signature().format())

    def bleu(self) -> float:
        """Returns BLEU of all sentences."""
        return _bleu_of_counts(self.counts.sum(axis=0))

    def has_text_of(self, other: "BleuStatistics") -> bool:
        """Returns whether both seem to have the same test text and signature.

        Compares the lengths of the references, as there is no text.
        """
        return self.signature == other.signature and np.array_equal(
            self.counts[:, 1], other.counts[:, 1]
        )

    def to_json(self) -> dict[str, Any]:
        """Returns a dict of strings that `from_json` reads."""
        # By column, where equal numbers are adjacent and compress well.
        stored = np.ascontiguousarray(self.counts.T).astype(_STORED).tobytes()
        packed = base64.b64encode(zlib.compress(stored, 9)).decode("ascii")
        return {"signature": self.signature, "counts": packed}

    @classmethod
    def from_json(cls, mapping: dict[str, Any]) -> "BleuStatistics":
        """Reads what `to_json` returned; `ValueError` if it is damaged."""
        try:
            stored = zlib.decompress(base64.b64decode(mapping["counts"]))
            columns = np.frombuffer(stored, _STORED).reshape(_NUM_COUNTS, -1)
            return cls(columns.T.astype(np.int64), str(mapping["signature"]))
        except (LookupError, TypeError, ValueError, zlib.error) as error:
            raise ValueError(f"damaged counts of BLEU: {error}") from error


def _bleu_of_counts(total: np.ndarray) -> float:
    """Returns BLEU of the summed counts of some sentences, `(10,)`."""
    length, reference_length, *ngrams = total.tolist()
    return sacrebleu.metrics.BLEU.compute_bleu(
        ngrams[:4], ngrams[4:], length, reference_length, smooth_method="exp"
    ).score


@dataclasses.dataclass(frozen=True)
class BootstrapDifference:
    """How much better one system is than another, and how certain that is.

    Attributes:
        difference: The mean BLEU of the system minus that of the baseline.
        low: The lower end of the interval that contains 95 % of the resampled
            differences.
        high: Its upper end.
        p_value: The probability of at least this difference if both were
            equally good.
        num_seeds: The number of pairs of runs that were compared.
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

    Runs of the same seed are a pair, and the mean is over the pairs. Texts are
    drawn as in `paired_bootstrap`, the same for all runs of both systems. The
    interval estimates how the difference would vary with the test text. See the
    standard deviation over seeds for how it varies with the seed.

    # Differs from sacreBLEU: differences keep their sign. sacreBLEU takes
    absolute values before it subtracts their mean, which matters if the sign
    is uncertain.

    Args:
        system: dict of seed to `BleuStatistics`.
        baseline: dict of seed to `BleuStatistics`, of the same test text.
            Seeds that only one of the two has are ignored.
        num_resamples: int. The number of texts to draw, at least 40. Defaults
            to `1000`.
        seed: int. The random seed, at least 1. Defaults to `12345`.

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
    ordered = np.sort(resampled)
    # The same number, 2.5 % rounded down, is left out at either end.
    left_out = num_resamples // _LEAST_RESAMPLES
    return BootstrapDifference(
        difference,
        float(ordered[left_out]),
        float(ordered[-left_out - 1]),
        _p_value(resampled, difference),
        len(pairs),
    )


def _scores(totals: np.ndarray) -> np.ndarray:
    """Returns BLEU of each row of summed counts."""
    return np.array([_bleu_of_counts(total) for total in totals])


def _p_value(resampled: np.ndarray, difference: float) -> float:
    """Returns the p-value, computed as by sacreBLEU."""
    if difference == 0:
        return 1.0
    by_chance = np.abs(resampled - resampled.mean())
    greater = int(np.sum(by_chance > abs(difference)))
    return (greater + 1) / (len(resampled) + 1)


def _check_same_text(all_statistics: Sequence[BleuStatistics]) -> None:
    first = all_statistics[0]
    for other in all_statistics[1:]:
        if not other.has_text_of(first):
            raise ValueError(
                "The systems must have translated the same test text, and BLEU "
                "must be computed the same way. Received: "
                f"{len(first.counts)} sentences ({first.signature}) and "
                f"{len(other.counts)} ({other.signature})."
            )
