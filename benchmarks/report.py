"""Puts stored results into the tables and sentences of pages.

From the root of a checkout, with the package installed:

    python -m benchmarks.report --write

A table stands between two marks, `<!-- NAME: by benchmarks.report -->` and
`<!-- /NAME -->`. A figure in a sentence has one mark after it, as in
`1.07 to 1.18<!-- NAME -->`. `benchmarks.page_tables` says which results they
are made of. `--check` only says whether the pages are up to date.
"""

import argparse
import pathlib
import re
import sys
from collections.abc import Sequence

from benchmarks.harness.engine import ROOT
from benchmarks.harness.results import RESULTS
from benchmarks.harness.results import Result
from benchmarks.harness.results import origin_line
from benchmarks.page_tables import FIGURES
from benchmarks.page_tables import TABLES
from relative_attention.errors import InputError

_BLOCK = re.compile(
    r"<!-- (?P<name>\w+): by benchmarks\.report -->.*?<!-- /(?P=name) -->",
    re.DOTALL,
)
_FIGURE = re.compile(
    r"(?:[\d.,]+\s+to\s+)?[\d.,]+(?P<mark><!-- (?P<name>\w+) -->)"
)
_MARK = ": by benchmarks.report -->"


def pages() -> list[pathlib.Path]:
    """Returns the pages of this checkout that have stored results."""
    folders = ("*.md", "docs/*/*.md", "models/**/*.md")
    found = sorted(page for folder in folders for page in ROOT.glob(folder))
    texts = {page: page.read_text("utf-8") for page in found}
    return [
        page
        for page, text in texts.items()
        if _MARK in text or _FIGURE.search(text)
    ]


def fill(text: str, folder: pathlib.Path = RESULTS) -> str:
    """Returns a text with every marked table and figure rebuilt.

    Args:
        text: A string of Markdown.
        folder: The path of the folder of results. Defaults to that of this
            checkout.

    Raises:
        InputError: If a table has no end, a name is unknown, or a result is
            missing.
    """

    def read(kind: str, known: dict, name: str) -> tuple[str, Sequence[Result]]:
        if name not in known:
            raise InputError(
                f"There is no {kind} {name!r}. Known: {', '.join(known)}."
            )
        make, names = known[name]
        results = [Result.read(folder / f"{each}.json") for each in names]
        return make(*results), results

    def table(block: re.Match) -> str:
        name = block["name"]
        made, results = read("table", TABLES, name)
        origins = "\n".join(dict.fromkeys(map(_origin_of, results)))
        content = f"{made}\n\n{origins}".rstrip()
        return f"<!-- {name}{_MARK}\n\n{content}\n\n<!-- /{name} -->"

    def figure(written: re.Match) -> str:
        made, _ = read("figure", FIGURES, written["name"])
        # The line may be broken between the words.
        if written[0].split() == f"{made}{written['mark']}".split():
            return written[0]
        return made + written["mark"]

    filled, count = _BLOCK.subn(table, text)
    if count != text.count(_MARK):
        raise InputError(
            f"{text.count(_MARK)} tables begin with `<!-- NAME{_MARK}`, and "
            f"{count} of them end with `<!-- /NAME -->`. Each must."
        )
    return _FIGURE.sub(figure, filled)


def _origin_of(result: Result) -> str:
    """Returns machine, versions, commits and date of a result."""
    commits = dict.fromkeys(
        row["commit"] for row in result.rows if "commit" in row
    )
    return origin_line(result.origin, list(commits))


def main(arguments: Sequence[str] | None = None) -> None:
    """Writes or checks the pages that the command line names, or all."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.report",
        description=(__doc__ or "").partition("\n")[0],
        epilog="example: python -m benchmarks.report --write",
    )
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--write", action="store_true")
    group.add_argument("--check", action="store_true")
    parser.add_argument(
        "pages",
        nargs="*",
        type=pathlib.Path,
        metavar="FILE.md",
        help="default: all pages of the checkout that have results",
    )
    options = parser.parse_args(arguments)
    for path in options.pages or pages():
        try:
            text = path.read_text("utf-8")
            filled = fill(text)
        except (InputError, OSError) as error:
            sys.exit(f"error: {path}: {error}")
        if options.write:
            path.write_text(filled, "utf-8")
        elif filled != text:
            sys.exit(
                f"error: {path} differs from the stored results. Run python "
                "-m benchmarks.report --write"
            )


if __name__ == "__main__":
    main()
