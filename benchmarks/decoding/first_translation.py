"""How long the first translation of a model takes, from an empty process.

Most of it is the import of TensorFlow, which no program that translates with
it can do without: the program times the command beside that import alone. From
the root of a checkout, with the package installed:

    python -m benchmarks.decoding.first_translation
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from benchmarks.harness.command import add_numbers
from benchmarks.harness.command import benchmark
from benchmarks.harness.engine import ROOT
from benchmarks.harness.engine import EngineError
from benchmarks.harness.engine import round_robin
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.results import markdown_table
from benchmarks.harness.results import ratios
from benchmarks.harness.results import spread

_IMPORT = "import tensorflow, tensorflow_text"
_TRANSLATE = "relative-attention translate"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the option of the command."""
    add_numbers(parser, rounds=5)


def measure(options: argparse.Namespace) -> list[Row]:
    """Starts both processes in turns."""
    program = "import sys; from relative_attention.cli import main; "
    commands = {
        _IMPORT: ["-c", _IMPORT],
        _TRANSLATE: [
            *("-c", f"{program}sys.exit(main())"),
            *("translate", "multi30k_en_de_tiny_relative"),
        ],
    }
    times = round_robin(
        list(commands),
        lambda name: _times_of(commands[name]),
        options.rounds,
    )
    return [
        {
            "process": name,
            "seconds": [seconds for seconds, _ in times[name]],
            "processor_seconds": [used for _, used in times[name]],
        }
        for name in commands
    ]


def _times_of(arguments: Sequence[str]) -> tuple[float, float]:
    """Returns how long a new Python takes, and how long it computes."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    # Without it, Python compiles a package at its first import alone.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder:
        used = _processor_seconds()
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, *arguments],
            input="A man rides a bike.\n",
            env=environment,
            cwd=folder,
            text=True,
            capture_output=True,
        )
        seconds = time.perf_counter() - start
    if done.returncode:
        raise EngineError(f"{arguments} failed:\n{done.stderr}")
    return seconds, _processor_seconds() - used


def _processor_seconds() -> float:
    """Returns how long the processes that ended have computed, all cores."""
    times = os.times()
    return times.children_user + times.children_system


def describe(result: Result) -> str:
    """Returns the table of both, with ratios of the same round."""
    base = result.rows[0]
    names = ("seconds", "processor_seconds")
    cells = [
        [
            f"`{row['process']}`",
            *(spread(row[name]) for name in names),
            *(spread(ratios(row[name], base[name])) for name in names),
        ]
        for row in result.rows
    ]
    header = ["process", "seconds", "processor seconds", "ratio", "ratio"]
    return markdown_table(header, cells)


main = benchmark(
    "decoding.first_translation",
    __doc__,
    "--rounds 7",
    add_arguments,
    measure,
    describe,
)

if __name__ == "__main__":
    main()
