"""What a benchmark measured, where and with what, stored as JSON."""

import dataclasses
import importlib.metadata
import json
import pathlib
import textwrap
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from benchmarks.harness.engine import ROOT
from relative_attention.errors import InputError

# The results that docs/science/speed.md shows.
RESULTS = ROOT / "benchmarks" / "results"

Row = dict[str, Any]

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
        rows: A sequence of dicts. A figure is a number, the list of its
            values by round, or `Spread` as a dict.
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
