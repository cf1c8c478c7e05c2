"""What a benchmark measured, stored as JSON."""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from benchmarks.harness.engine import ROOT
from relative_attention.errors import InputError

# The results that docs/science/speed.md shows.
RESULTS = ROOT / "benchmarks" / "results"

Row = dict[str, Any]


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
