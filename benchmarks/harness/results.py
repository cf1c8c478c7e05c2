"""What a benchmark measured: figures, tables, and where they come from."""

import dataclasses
import importlib.metadata
import json
import pathlib
import statistics
import textwrap
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import tabulate

from benchmarks.harness.engine import ROOT
from relative_attention.errors import InputError

# The results that docs/science/speed.md shows.
RESULTS = ROOT / "benchmarks" / "results"

Row = dict[str, Any]
# The values of all rounds, or their median where they were not recorded.
Figure = float | Sequence[float]

# The width that pages are wrapped at.
_WIDTH = 80
_SHORT_COMMIT = 7
_NAMES = {
    "python": "Python",
    "keras": "Keras",
    "tensorflow": "TensorFlow",
    "jax": "JAX",
    "ctranslate2": "CTranslate2",
}


@dataclasses.dataclass(frozen=True)
class Result:
    """The figures of one run of a benchmark, and where they come from.

    Attributes:
        benchmark: A string, the name of the benchmark.
        command: A string, the command that measured them.
        options: A mapping of all options, given or not.
        precision: A string, what is computed in; `None` if not recorded.
        origin: A mapping, see `find_origin`; `None` stands for what was not
            recorded.
        rows: A sequence of dicts, whose figures are as `Figure` says.
        notes: A string, what one must know to read the figures.
    """

    benchmark: str
    command: str
    options: Mapping[str, Any]
    precision: str | None
    origin: Mapping[str, Any]
    rows: Sequence[Row]
    notes: str = ""

    def write(self, path: pathlib.Path) -> None:
        """Writes JSON, one row a line so that changes can be seen."""
        content = dataclasses.asdict(self)
        rows = ",\n".join(f"  {json.dumps(row)}" for row in content.pop("rows"))
        head = json.dumps(content, indent=1).removesuffix("\n}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{head},\n "rows": [\n{rows}\n ]\n}}\n', "utf-8")

    @classmethod
    def read(cls, path: pathlib.Path) -> "Result":
        """Reads what `write` wrote.

        Raises:
            InputError: If the file is missing or no such result.
        """
        try:
            return cls(**json.loads(path.read_text("utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise InputError(
                f"{path} is not the result of a benchmark: {error}"
            ) from error


def find_origin(packages: Sequence[str] = ()) -> dict[str, Any]:
    """Returns machine, versions, commit and date, a dict for JSON.

    The machine is the name of its processor, the cores that may be used and
    the instructions that make matrix products fast. This loads TensorFlow,
    whose memory would count as that of engines which are started afterwards.

    Args:
        packages: A sequence of strings, the names of further packages whose
            versions matter to the benchmark.
    """
    import keras

    from relative_attention.runs.report import provenance

    backend = keras.backend.backend()
    if backend != "tensorflow":
        packages = [*packages, backend]
    origin = provenance()
    for package in packages:
        try:
            origin[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            origin[package] = None
    return {**origin, "backend": backend}


def origin_line(
    origin: Mapping[str, Any], commits: Sequence[str] | None = None
) -> str:
    """Returns machine, versions, commits and date, wrapped, for a table.

    Args:
        origin: A mapping, see `find_origin`.
        commits: A sequence of strings, where not all rows are of one commit.
            Defaults to that of `origin`.
    """
    versions = [
        f"{name} {origin[key]}"
        for key, name in _NAMES.items()
        if origin.get(key)
    ]
    commits = commits or [origin["commit"] or "not recorded"]
    # What a commit had been changed to since ends with "+".
    short = [
        commit[:_SHORT_COMMIT] + "+" * commit.endswith("+")
        if " " not in commit
        else commit
        for commit in commits
    ]
    line = "; ".join(
        [
            origin["hardware"],
            ", ".join(versions),
            f"commit {' and '.join(short)}",
            origin["date"],
        ]
    )
    return textwrap.fill(f"{line}.", _WIDTH, break_on_hyphens=False)


# === Figures and tables ===


def median(figure: Figure) -> float:
    """Returns the median of a figure."""
    return statistics.median(_values(figure))


def spread(figure: Figure, digits: int = 2) -> str:
    """Returns `median (least to greatest)`, or the median alone."""
    values = _values(figure)
    middle, low, high = (
        f"{number:,.{digits}f}"
        for number in (statistics.median(values), min(values), max(values))
    )
    return middle if low == high else f"{middle} ({low} to {high})"


def _values(figure: Figure) -> Sequence[float]:
    return [figure] if isinstance(figure, int | float) else figure


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Returns what each of ours is over theirs of the same round."""
    return [mine / other for mine, other in zip(ours, theirs, strict=True)]


def markdown_table(
    header: Sequence[str], rows: Sequence[Sequence[object]], texts: int = 1
) -> str:
    """Returns a Markdown table, its first columns left and the others right.

    Args:
        header: A sequence of strings, the names of the columns.
        rows: A sequence of rows; numbers stand as `str` shows them.
        texts: An integer, how many columns are text.
    """
    return tabulate.tabulate(
        rows,
        header,
        tablefmt="pipe",
        colalign=["left"] * texts + ["right"] * (len(header) - texts),
        # A cell is shown as it is given, "1.50" too.
        disable_numparse=True,
    )
