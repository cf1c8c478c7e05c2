"""Breaks lines of the package, one at a time, and shows which tests notice.

    python tests/mutations.py

Each line of `LINES` is changed in a copy of the checkout, and the tests that
`make test` runs of the named files or folders are run there until one fails.
Prints a table: what was broken, and the test that caught it. Exits with 1 if
a broken line was not noticed.
"""

import argparse
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from tabulate import tabulate

ROOT = pathlib.Path(__file__).parents[1]


@dataclasses.dataclass(frozen=True)
class Line:
    """A line to break.

    Attributes:
        file: Its file in the package.
        old: A part of the line that stands once in the file.
        new: What replaces it.
        tests: Files or folders of `tests` whose business it is.
    """

    file: str
    old: str
    new: str
    tests: str


LINES: tuple[Line, ...] = ()


def main() -> int:
    """Breaks each line and prints the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="a part of the files' names")
    options = parser.parse_args()
    lines = [line for line in LINES if (options.only or "") in line.file]
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        copy = pathlib.Path(folder, "checkout")
        copy_checkout(copy)
        # Every line is looked for before the first test runs.
        for line in lines:
            broken_text(copy, line)
        rows = [(line, catcher(copy, line)) for line in lines]
    print(
        tabulate(
            [
                (line.file, line.old, line.new, test or "NOT CAUGHT")
                for line, test in rows
            ],
            headers=("file", "line", "broken", "caught by"),
            tablefmt="github",
        )
    )
    return int(any(test is None for _, test in rows))


def copy_checkout(target: pathlib.Path) -> None:
    """Copies what git knows of, and nothing else."""
    names = subprocess.run(
        ["git", "ls-files", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target / name)


def broken_text(copy: pathlib.Path, line: Line) -> str:
    """Returns a file's text with its line broken."""
    text = (copy / "relative_attention" / line.file).read_text("utf-8")
    if text.count(line.old) != 1:
        raise SystemExit(
            f"{line.file} must have {line.old!r} once. It has it "
            f"{text.count(line.old)} times."
        )
    return text.replace(line.old, line.new)


def catcher(copy: pathlib.Path, line: Line) -> str | None:
    """Returns the first test that fails with a line broken, or `None`."""
    path = copy / "relative_attention" / line.file
    whole = path.read_text("utf-8")
    path.write_text(broken_text(copy, line), "utf-8")
    print(f"{line.file}: {line.new}", file=sys.stderr, flush=True)
    try:
        result = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "--exitfirst"),
                *("--tb=no", "-r", "fE", "-p", "no:cacheprovider"),
                *line.tests.split(),
            ],
            cwd=copy,
            # Processes that tests start must find the copy, too.
            env={**os.environ, "PYTHONPATH": str(copy)},
            capture_output=True,
            text=True,
        )
    finally:
        path.write_text(whole, "utf-8")
    if result.returncode == 0:
        return None
    if result.returncode not in (1, 2):
        raise SystemExit(result.stdout + result.stderr)
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", result.stdout, re.M)
    if found is None:
        raise SystemExit(result.stdout + result.stderr)
    return found.group(1)


if __name__ == "__main__":
    sys.exit(main())
