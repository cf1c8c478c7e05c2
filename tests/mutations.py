"""Breaks the package in small ways, and shows which tests notice.

    python tests/mutations.py

`mutations.yaml` lists the mutations: a text that stands once in a file, what
replaces it, what that breaks, and the test that caught it last. Each is made
in a copy of the checkout, where the test that caught it last runs first. If
that test passes or is gone, the tests nearby run, then all of `make test`,
then the `large` and `slow` tests nearby, until one fails. Those that no test
caught are not tried; without its `caught_by`, a mutation is. Prints a table.
Exits with 1 if a mutation that was caught before is not caught now.
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
from collections import Counter
from collections.abc import Iterator

import yaml
from tabulate import tabulate

ROOT = pathlib.Path(__file__).parents[1]
LIST = ROOT / "tests" / "mutations.yaml"
NOT_CAUGHT = "not caught"
TEST = ("-m", "not slow and not large")
TEST_REST = ("-m", "slow or large")
# A broken loop may never end. No folder of tests takes so long.
MOST_SECONDS = 1800


@dataclasses.dataclass
class Mutation:
    """A change of the package that a test should notice.

    Attributes:
        room: Its package; `saving` for the modules at the root, too.
        file: Its file in the package.
        old: A text that stands once in the file.
        new: What replaces it.
        breaks: What is wrong afterwards.
        drawn: Whether it was drawn by seed or chosen by hand.
        caught_by: The test that caught it last, `NOT_CAUGHT`, or `None` if it
            was not tried yet.
    """

    room: str
    file: str
    old: str
    new: str
    breaks: str
    drawn: bool = True
    caught_by: str | None = None


def main() -> int:
    """Runs what the command line asks for; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="a part of the files' names")
    options = parser.parse_args()
    mutations = [Mutation(**fields) for fields in read_list()]
    chosen = [m for m in mutations if (options.only or "") in m.file]
    rows, lost = [], 0
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        copy = pathlib.Path(folder, "checkout")
        copy_checkout(copy)
        # Each text is looked for before the first test runs.
        for mutation in chosen:
            broken_text(copy, mutation)
        for mutation in chosen:
            command, test = "", NOT_CAUGHT
            if mutation.caught_by != NOT_CAUGHT:
                command, test = catcher(copy, mutation)
            rows.append((mutation.file, mutation.breaks, command, test))
            if test == NOT_CAUGHT and mutation.caught_by not in (None, test):
                lost += 1
    headers = ("file", "what is broken", "caught by", "test")
    print(tabulate(rows, headers=headers, tablefmt="github"))
    for kind, drawn in (("drawn", True), ("chosen", False)):
        commands = Counter(
            row[2] or NOT_CAUGHT
            for mutation, row in zip(chosen, rows)
            if mutation.drawn == drawn
        )
        print(f"{kind}: {dict(commands)}")
    return int(lost > 0)


def read_list() -> list[dict[str, str]]:
    return yaml.safe_load(LIST.read_text("utf-8"))


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


def broken_text(copy: pathlib.Path, mutation: Mutation) -> str:
    """Returns the text of a mutation's file with the mutation made."""
    text = (copy / "relative_attention" / mutation.file).read_text("utf-8")
    if text.count(mutation.old) != 1:
        raise SystemExit(
            f"{mutation.file} must have {mutation.old!r} once. It has it "
            f"{text.count(mutation.old)} times. If the code has moved or "
            f"changed, correct the entry in {LIST.name}: {mutation.breaks}"
        )
    return text.replace(mutation.old, mutation.new)


def catcher(copy: pathlib.Path, mutation: Mutation) -> tuple[str, str]:
    """Returns the command and its first test that fails with a mutation."""
    print(f"{mutation.file}: {mutation.breaks}", file=sys.stderr, flush=True)
    path = copy / "relative_attention" / mutation.file
    whole = path.read_text("utf-8")
    path.write_text(broken_text(copy, mutation), "utf-8")
    try:
        for command, options in attempts(copy, mutation):
            test = first_failure(copy, options)
            if test is not None:
                return command, test
    finally:
        path.write_text(whole, "utf-8")
    return "", NOT_CAUGHT


def attempts(
    copy: pathlib.Path, mutation: Mutation
) -> Iterator[tuple[str, list[str]]]:
    """Yields which tests to run, nearest first, and the command for them."""
    near = [f"tests/{mutation.room}"]
    if mutation.room == "saving":
        near += [str(p.relative_to(copy)) for p in copy.glob("tests/test_*.py")]
    if mutation.caught_by is not None:
        file = mutation.caught_by.split("::")[0]
        if (copy / file).exists():
            yield "make test", [*TEST, mutation.caught_by]
            yield "make test-rest", [*TEST_REST, mutation.caught_by]
            near.insert(0, file)
    near = [name for name in near if (copy / name).exists()]
    yield "make test", [*TEST, *near]
    yield "make test", [*TEST, "--numprocesses", "2", "--dist", "loadfile"]
    yield "make test-rest", [*TEST_REST, *near]


def first_failure(copy: pathlib.Path, options: list[str]) -> str | None:
    """Returns the first test that fails, or `None`."""
    try:
        result = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "--exitfirst", "--tb=no"),
                *("-r", "fE", "-p", "no:cacheprovider", *options),
            ],
            cwd=copy,
            # Processes that tests start must find the copy, too.
            env={**os.environ, "PYTHONPATH": str(copy)},
            capture_output=True,
            text=True,
            timeout=MOST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        # A test does not end.
        return options[-1]
    found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", result.stdout, re.M)
    if found is not None:
        return found.group(1)
    output = result.stdout + result.stderr
    if "ERROR: not found" in output or result.returncode in (0, 5):
        # The test is gone, all pass, or none is selected.
        return None
    if re.search(r"relative_attention/\S+:\d+: in ", output):
        # The package cannot be imported.
        return options[-1]
    raise SystemExit(output)


if __name__ == "__main__":
    sys.exit(main())
