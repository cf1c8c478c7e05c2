"""Puts the stored results of benchmarks into the tables of a text.

From the root of a checkout, with the package installed:

    python -m benchmarks.report --write docs/science/speed.md

A table stands between two marks, `<!-- NAME: by benchmarks.report -->` and
`<!-- /NAME -->`. `benchmarks.speed_tables` says which results it is made of.
`--check` only says whether the text is up to date.
"""

import argparse
import pathlib
import re
import sys
from collections.abc import Sequence

from benchmarks.harness.results import RESULTS
from benchmarks.harness.results import Result
from benchmarks.harness.results import origin_line
from benchmarks.speed_tables import TABLES
from relative_attention.errors import InputError

_BLOCK = re.compile(
    r"<!-- (?P<name>\w+): by benchmarks\.report -->.*?<!-- /(?P=name) -->",
    re.DOTALL,
)
_MARK = ": by benchmarks.report -->"


def fill_tables(text: str, folder: pathlib.Path = RESULTS) -> str:
    """Returns a text with every marked table rebuilt.

    Args:
        text: A string of Markdown.
        folder: The path of the folder of results. Defaults to that of this
            checkout.

    Raises:
        InputError: If there is no mark, a table has no end or is unknown, or
            a result is missing.
    """

    def fill(block: re.Match) -> str:
        name = block["name"]
        if name not in TABLES:
            known = ", ".join(TABLES)
            raise InputError(f"There is no table {name!r}. Known: {known}.")
        make_table, names = TABLES[name]
        results = [Result.read(folder / f"{each}.json") for each in names]
        origins = "\n".join(dict.fromkeys(map(_origin_of, results)))
        table = f"{make_table(*results)}\n\n{origins}"
        return f"<!-- {name}{_MARK}\n\n{table}\n\n<!-- /{name} -->"

    filled, count = _BLOCK.subn(fill, text)
    if not count or count != text.count(_MARK):
        raise InputError(
            f"{text.count(_MARK)} tables begin with `<!-- NAME{_MARK}`, and "
            f"{count} of them end with `<!-- /NAME -->`. Each must, and there "
            "must be one."
        )
    return filled


def _origin_of(result: Result) -> str:
    """Returns machine, versions, commits and date of a result."""
    commits = dict.fromkeys(
        row["commit"] for row in result.rows if "commit" in row
    )
    return origin_line(result.origin, list(commits))


def main(arguments: Sequence[str] | None = None) -> None:
    """Writes or checks the text that the command line names."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.report",
        description=(__doc__ or "").partition("\n")[0],
        epilog="example: python -m benchmarks.report --write "
        "docs/science/speed.md",
    )
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--write", metavar="FILE.md", type=pathlib.Path)
    group.add_argument("--check", metavar="FILE.md", type=pathlib.Path)
    options = parser.parse_args(arguments)
    path = options.write or options.check
    try:
        text = path.read_text("utf-8")
        filled = fill_tables(text)
    except (InputError, OSError) as error:
        sys.exit(f"error: {error}")
    if options.write:
        path.write_text(filled, "utf-8")
    elif filled != text:
        sys.exit(
            f"error: {path} differs from benchmarks/results. Run python -m "
            f"benchmarks.report --write {path}"
        )


if __name__ == "__main__":
    main()
