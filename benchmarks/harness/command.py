"""What the command lines of all benchmarks share."""

import argparse
import pathlib
import shlex
import sys
from collections.abc import Callable
from collections.abc import Sequence
from typing import TypeVar

from benchmarks.harness.engine import ROOT
from benchmarks.harness.engine import EngineError
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.results import find_origin
from benchmarks.harness.results import origin_line
from relative_attention.errors import InputError
from relative_attention.quiet_tensorflow import load_tensorflow_quietly

Number = TypeVar("Number", int, float)

# Git ignores this folder: results of one's own replace none of the docs.
_OUTPUT = ROOT / "runs" / "benchmarks"


def make_parser(
    name: str,
    description: str | None,
    example: str,
    result_name: str | None = None,
) -> argparse.ArgumentParser:
    """Returns a parser with the option `--output`.

    Args:
        name: A string, the module's name below `benchmarks`, such as
            `"training.feeding"`.
        description: The docstring of the module; its first line is shown.
        example: A string of arguments that can be given.
        result_name: A string, what its result is stored as. Defaults to the
            last part of `name`.
    """
    program = f"python -m benchmarks.{name}"
    parser = argparse.ArgumentParser(
        prog=program,
        description=(description or "").partition("\n")[0],
        epilog=f"example: {program} {example}".rstrip(),
    )
    parser.add_argument(
        "--output",
        metavar="FILE.json",
        type=pathlib.Path,
        default=_OUTPUT / f"{result_name or name.rpartition('.')[2]}.json",
        help="where to store all figures (default: %(default)s)",
    )
    return parser


def positive_int(text: str) -> int:
    """Returns the positive integer that an option gives."""
    return _positive(int(text), text)


def positive_float(text: str) -> float:
    """Returns the positive number that an option gives."""
    return _positive(float(text), text)


def _positive(value: Number, text: str) -> Number:
    """Returns a number that an option gives, if it is positive."""
    if value > 0:
        return value
    raise argparse.ArgumentTypeError(f"must be positive. Received: {text}.")


def run_benchmark(
    parser: argparse.ArgumentParser,
    options: argparse.Namespace,
    arguments: Sequence[str] | None,
    measure: Callable[[argparse.Namespace], list[Row]],
    describe: Callable[[Result], str],
    packages: Sequence[str] = (),
    precision: str = "float32",
) -> Result:
    """Measures, prints what was found and stores it.

    What the user can mend ends the program with one line.

    Args:
        parser: An `argparse.ArgumentParser`, from `make_parser`.
        options: The options that it read.
        arguments: What it read them from; `None` is the command line.
        measure: A function of the options that returns the rows.
        describe: A function of the result that returns what is printed.
        packages: A sequence of strings, see `find_origin`.
        precision: A string, what is computed in. Defaults to `"float32"`.

    Returns:
        The `Result`.
    """
    try:
        rows = measure(options)
    except (InputError, EngineError) as error:
        sys.exit(f"error: {error}")
    # Not before all engines have ended: TensorFlow's memory would count.
    load_tensorflow_quietly()
    given = sys.argv[1:] if arguments is None else arguments
    settings = {
        name: value
        for name, value in vars(options).items()
        if not isinstance(value, pathlib.Path)
    }
    result = Result(
        benchmark=parser.prog.rpartition(".")[2],
        command=shlex.join([*parser.prog.split(), *given]),
        options=settings,
        precision=precision,
        origin=find_origin(packages),
        rows=rows,
    )
    print(f"{describe(result)}\n\n{origin_line(result.origin)}")
    result.write(options.output)
    print(f"Stored in {options.output}.")
    return result
