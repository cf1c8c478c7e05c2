"""Tests whether one system is better than another by more than chance.

Both `paired_bootstrap`, of the translations of single models, and
`bootstrap_of_means`, of systems that were trained with several seeds, resample
what sacreBLEU counts in each sentence (`SentenceStatistics`).
"""

import base64
import dataclasses
import zlib
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import TypeVar

import numpy as np
import tabulate

from relative_attention.argument_checks import checked_at_least
from relative_attention.evaluation.scores import METRICS
from relative_attention.evaluation.scores import References
from relative_attention.evaluation.scores import checked_lines
from relative_attention.evaluation.scores import sacrebleu_metrics

Seed = TypeVar("Seed")

# A 95 % interval leaves out one in forty resamples at either end.
_LEAST_RESAMPLES = 40
# Seconds to minutes; p-values of one in a hundred thousand.
_MOST_RESAMPLES = 100_000
_SIGNIFICANT = 0.05
# sacreBLEU's counts of BLEU: lengths of translation and reference, correct
# n-grams of one to four tokens, and all n-grams.
_NUM_COUNTS = 10
# Little-endian on every machine. Most high bytes are 0, which compress well.
_STORED = "<u2"
# A file may come from anywhere, and a few bytes inflate to gigabytes.
_MOST_SENTENCES = 1_000_000
_MOST_BYTES = _MOST_SENTENCES * _NUM_COUNTS * 2


@dataclasses.dataclass(frozen=True)
class BootstrapResult:
    """A system's score, its uncertainty, and whether it beats the first.

    With several seeds, scores are means over them.

    Attributes:
        system: The name of the system.
        name: sacreBLEU's name of the metric: BLEU, chrF2, chrF2++ or TER.
        score: The score of the whole text.
        mean: The mean score of the resamples.
        interval: Half the width of the interval that contains 95 % of them.
        p_value: The probability of at least this difference from the first
            system if both were equally good; `None` for the first system.
        signature: sacreBLEU's signature, with the number of resamples (`bs`)
            and the `seed`.
        difference: The score minus that of the first system.
        low: The lower end of the interval that contains 95 % of the resampled
            differences.
        high: Its upper end.
        num_seeds: The number of runs of the system that were compared.
    """

    system: str
    name: str
    score: float
    mean: float
    interval: float
    p_value: float | None
    signature: str
    difference: float = 0.0
    low: float = 0.0
    high: float = 0.0
    num_seeds: int = 1


def paired_bootstrap(
    systems: Mapping[str, Sequence[str]],
    references: References,
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

    Unlike in sacreBLEU, a system with exactly the score of the first has the
    p-value 1; sacreBLEU gives the lowest, 1 / (num_resamples + 1).

    Args:
        systems: dict of name to list of strings, detokenized. Each is compared
            with the first.
        references: list of strings, one for each line of a system; or a list
            of such lists, if there are several references.
        metrics: list of names among `"bleu"`, `"chrf"`, `"chrf++"` and
            `"ter"`. Defaults to all.
        num_resamples: int. The number of texts to draw, 40 to 100,000. Defaults
            to `1000`.
        seed: int. The random seed, at least 1. Defaults to `12345`, as in
            sacreBLEU; `SACREBLEU_SEED` is ignored.
        lowercase: as for `corpus_scores`.
        tokenize: as for `corpus_scores`.

    Returns:
        Dict of metric to a list of `BootstrapResult`, one for each system, in
        their order.

    Raises:
        TypeError: if `systems` is no dict, or the texts are not lists of
            strings.
        ValueError: if there are fewer than two systems, their numbers of
            lines differ, a metric or tokenizer is unknown, or a number is too
            small.
        InputError: if a tokenizer is requested and not installed.

    Example:
    >>> references = ["Ein Hund läuft.", "Ein roter Bus.", "Ich mag Tee."] * 20
    >>> better = ["Ein Hund läuft.", "Ein roter Bus.", "Ich will Tee."] * 20
    >>> worse = ["Ein Hund geht.", "Ein Bus ist rot.", "Ich mag Tee."] * 20
    >>> results = ra.paired_bootstrap(
    ...     {"worse": worse, "better": better}, references, ["bleu"]
    ... )
    >>> round(results["bleu"][1].p_value, 3)
    0.001

    Reference:
     - [Koehn, 2004](https://aclanthology.org/W04-3250)
    """
    if not isinstance(systems, Mapping):
        raise TypeError(
            "`systems` must be a dict of name to list of strings, such as "
            "{'baseline': [...], 'relative': [...]}. Received: "
            f"{type(systems).__name__}."
        )
    check_bootstrap(num_resamples, seed)
    scorers = sacrebleu_metrics(metrics, lowercase, tokenize)
    if len(systems) < 2:
        raise ValueError(
            "`systems` must hold at least two: the first and those to compare "
            f"with it. Received: {list(systems)}."
        )
    texts = {
        name: checked_lines(hypotheses, references, f"systems[{name!r}]")
        for name, hypotheses in systems.items()
    }
    results = {}
    for metric, scorer in scorers.items():
        runs = {
            name: [SentenceStatistics.of_scorer(scorer, *text)]
            for name, text in texts.items()
        }
        results[metric] = _bootstrap(runs, num_resamples, seed, _from_absolute)
    return results


def check_bootstrap(num_resamples: int = 1000, seed: int = 12345) -> None:
    """Raises `ValueError` if a number does not suit a bootstrap."""
    checked_at_least("num_resamples", num_resamples, _LEAST_RESAMPLES)
    if num_resamples > _MOST_RESAMPLES:
        raise ValueError(
            f"`num_resamples` must be at most {_MOST_RESAMPLES:,}. "
            f"Received: num_resamples={num_resamples}."
        )
    # For sacreBLEU, 0 means no seed.
    checked_at_least("seed", seed, 1)


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
class SentenceStatistics:
    """What sacreBLEU counts in each sentence, and computes a score from.

    The counts of BLEU take a few kilobytes for a thousand sentences. The text
    cannot be restored from them, so they may be stored even if the text may
    not.

    Attributes:
        counts: Array `(sentences, counts)`. Of BLEU: the length of the
            translation and of the reference in tokens; the correct n-grams of
            one to four tokens; all n-grams of one to four tokens.
        signature: sacreBLEU's signature.
        scorer: sacreBLEU's metric.
    """

    counts: np.ndarray
    signature: str
    scorer: Any

    @classmethod
    def of_scorer(
        cls,
        scorer: Any,
        hypotheses: Sequence[str],
        references: Sequence[Sequence[str]],
    ) -> "SentenceStatistics":
        """Counts in translations with lists of references, one or more."""
        # sacreBLEU's own significance tests start from these counts.
        counts = scorer._extract_corpus_statistics(hypotheses, references)
        # The signature is complete only after a text has been read.
        return cls(np.array(counts), scorer.get_signature().format(), scorer)

    @classmethod
    def of_texts(
        cls,
        hypotheses: Sequence[str],
        references: References,
        tokenize: str = "13a",
    ) -> "SentenceStatistics":
        """Counts for BLEU, as `corpus_bleu`."""
        scorer = sacrebleu_metrics(["bleu"], tokenize=tokenize)["bleu"]
        return cls.of_scorer(scorer, *checked_lines(hypotheses, references))

    def total(self, times: np.ndarray | None = None) -> Any:
        """Returns sacreBLEU's score of the whole text.

        Args:
            times: int array, how often each sentence is in the text. Defaults
                to `None`, once.
        """
        totals = self.counts.sum(0) if times is None else times @ self.counts
        return self.scorer._compute_score_from_stats(totals.tolist())

    def score(self, times: np.ndarray | None = None) -> float:
        """Returns the number of `total`."""
        return self.total(times).score

    def has_text_of(self, other: "SentenceStatistics") -> bool:
        """Returns whether both seem to have the same test text and signature.

        Compares the lengths of the references, as there is no text.
        """
        return self.signature == other.signature and np.array_equal(
            self.counts[:, 1], other.counts[:, 1]
        )

    def to_json(self) -> dict[str, Any]:
        """Returns a dict of strings that `from_json` reads; of BLEU only."""
        # By column, where equal numbers are adjacent and compress well.
        stored = np.ascontiguousarray(self.counts.T).astype(_STORED).tobytes()
        packed = base64.b64encode(zlib.compress(stored, 9)).decode("ascii")
        return {"signature": self.signature, "counts": packed}

    @classmethod
    def from_json(cls, mapping: dict[str, Any]) -> "SentenceStatistics":
        """Reads what `to_json` returned; `ValueError` if it is damaged."""
        try:
            packed = base64.b64decode(mapping["counts"])
            inflating = zlib.decompressobj()
            stored = inflating.decompress(packed, _MOST_BYTES)
            if not inflating.eof:
                raise ValueError(
                    "they are cut short, or of more than "
                    f"{_MOST_SENTENCES:,} sentences"
                )
            columns = np.frombuffer(stored, _STORED).reshape(_NUM_COUNTS, -1)
            counts = columns.T.astype(np.int64)
        except (LookupError, TypeError, ValueError, zlib.error) as error:
            raise ValueError(f"damaged counts of BLEU: {error}") from error
        # Text is not read again, so any tokenizer does.
        scorer = sacrebleu_metrics(["bleu"])["bleu"]
        return cls(counts, str(mapping["signature"]), scorer)


def bootstrap_of_means(
    system: Mapping[Seed, SentenceStatistics],
    baseline: Mapping[Seed, SentenceStatistics],
    num_resamples: int = 1000,
    seed: int = 12345,
) -> BootstrapResult:
    """Compares two systems, each trained with several seeds.

    Runs of the same seed are a pair, and the mean is over the pairs. Texts are
    drawn as in `paired_bootstrap`, the same for all runs of both systems. The
    interval estimates how the difference would vary with the test text. See the
    standard deviation over seeds for how it varies with the seed.

    Unlike in sacreBLEU, differences keep their sign. sacreBLEU takes absolute
    values before it subtracts their mean, which matters if the sign is
    uncertain.

    Args:
        system: dict of seed to `SentenceStatistics`.
        baseline: dict of seed to `SentenceStatistics`, of the same test text.
            Seeds that only one of the two has are ignored.
        num_resamples: int. The number of texts to draw, 40 to 100,000. Defaults
            to `1000`.
        seed: int. The random seed, at least 1. Defaults to `12345`.

    Returns:
        `BootstrapResult` of the system.

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
    runs = {
        "baseline": [baseline[name] for name in seeds],
        "system": [system[name] for name in seeds],
    }
    _check_same_text([*runs["baseline"], *runs["system"]])
    return _bootstrap(runs, num_resamples, seed, _from_mean)[1]


def _bootstrap(
    runs: Mapping[str, Sequence[SentenceStatistics]],
    num_resamples: int,
    seed: int,
    by_chance: Callable[[np.ndarray], np.ndarray],
) -> list[BootstrapResult]:
    """Scores each system, and resamples of its sentences.

    Args:
        runs: the runs of each system by its name, of the same text.
        num_resamples, seed: see `paired_bootstrap`.
        by_chance: function of resampled differences that returns how far they
            are from their mean.
    """
    first = next(iter(runs.values()))
    size = len(first[0].counts)
    # The draws of sacreBLEU, one at a time, as a text may be long.
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(num_resamples):
        times = np.bincount(rng.choice(size, size), minlength=size)
        rows.append(
            [
                np.mean([run.score(times) for run in of_one])
                for of_one in runs.values()
            ]
        )
    resampled = np.array(rows).T  # (systems, resamples)
    scores = [np.mean([run.score() for run in some]) for some in runs.values()]
    results = []
    for number, (system, of_one) in enumerate(runs.items()):
        differences = resampled[number] - resampled[0]
        difference = float(scores[number] - scores[0])
        p_value = _p_value(by_chance(differences), difference)
        low, high = _interval(differences)
        ends = _interval(resampled[number])
        nrefs, _, rest = of_one[0].signature.partition("|")
        results.append(
            BootstrapResult(
                system=system,
                name=of_one[0].total().name,
                score=float(scores[number]),
                mean=float(resampled[number].mean()),
                interval=0.5 * (ends[1] - ends[0]),
                p_value=p_value if number else None,
                signature=f"{nrefs}|bs:{num_resamples}|seed:{seed}|{rest}",
                difference=difference,
                low=low,
                high=high,
                num_seeds=len(of_one),
            )
        )
    return results


def _interval(values: np.ndarray) -> tuple[float, float]:
    """Returns the ends of the interval that contains 95 % of the values."""
    ordered = np.sort(values)
    # The same number, 2.5 % rounded down, is left out at either end.
    left_out = len(ordered) // _LEAST_RESAMPLES
    return float(ordered[left_out]), float(ordered[-left_out - 1])


def _from_absolute(differences: np.ndarray) -> np.ndarray:
    """Takes absolute values first, as sacreBLEU does."""
    absolute = np.abs(differences)
    return absolute - absolute.mean()


def _from_mean(differences: np.ndarray) -> np.ndarray:
    return np.abs(differences - differences.mean())


def _p_value(by_chance: np.ndarray, difference: float) -> float:
    """Returns the p-value, counted as by sacreBLEU."""
    # sacreBLEU only counts resamples that differ by more than their mean, so
    # two equal texts would differ with certainty.
    if difference == 0:
        return 1.0
    greater = int(np.sum(by_chance > abs(difference)))
    return (greater + 1) / (len(by_chance) + 1)


def _check_same_text(all_statistics: Sequence[SentenceStatistics]) -> None:
    first = all_statistics[0]
    for other in all_statistics[1:]:
        if not other.has_text_of(first):
            raise ValueError(
                "The systems must have translated the same test text, and BLEU "
                "must be computed the same way. Received: "
                f"{len(first.counts)} sentences ({first.signature}) and "
                f"{len(other.counts)} ({other.signature})."
            )
