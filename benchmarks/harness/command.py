"""What the command lines of all benchmarks share."""

import argparse
import pathlib
import shlex
import sys
from collections.abc import Callable
from collections.abc import Sequence

from benchmarks.harness.engine import ROOT
from benchmarks.harness.engine import EngineError
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.results import find_origin
from benchmarks.harness.results import origin_line
from relative_attention.data.lines import read_lines
from relative_attention.errors import InputError
from relative_attention.quiet_tensorflow import load_tensorflow_quietly

# Git ignores this folder, so your results do not replace those of the docs.
_OUTPUT = ROOT / "runs" / "benchmarks"


def positive_int(text: str) -> int:
    """Returns the positive integer that an option gives."""
    if int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"must be positive. Received: {text}.")


def add_numbers(
    parser: argparse.ArgumentParser, **defaults: int | list[int] | None
) -> None:
    """Adds an option for each number, or list of numbers, all positive."""
    for name, default in defaults.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=positive_int,
            nargs="+" if isinstance(default, list) else None,
            default=default,
            metavar="NUMBER",
            help="default: %(default)s" if default else None,
        )


def add_model(parser: argparse.ArgumentParser) -> None:
    """Adds the model that is measured."""
    parser.add_argument("model", help="a model folder, or a bundled model")


def add_text_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds a model, and texts that it is measured with."""
    add_model(parser)
    for name in ("--source", "--reference"):
        parser.add_argument(name, required=True, metavar="FILE")
    # The first so many lines, or all.
    add_numbers(parser, sentences=None)


def read_texts(options: argparse.Namespace) -> list[list[str]]:
    """Returns the lines of `--source` and `--reference`."""
    return [
        read_sentences(path, options.sentences)
        for path in (options.source, options.reference)
    ]


def read_sentences(path: str, count: int | None) -> list[str]:
    """Returns the first lines of a text, or all.

    Raises:
        InputError: If the file cannot be read or is empty.
    """
    lines = list(read_lines(path))[:count]
    if not lines:
        raise InputError(f"There is no line in {path}.")
    return lines


def absolute_model(model: str) -> str:
    """Returns a model as a process finds it that starts elsewhere.

    A bundled name is no path.
    """
    path = pathlib.Path(model)
    return str(path.resolve()) if path.exists() else model


def benchmark(
    name: str,
    description: str | None,
    example: str,
    add_arguments: Callable[[argparse.ArgumentParser], None],
    measure: Callable[[argparse.Namespace], list[Row]],
    describe: Callable[[Result], str],
    packages: Sequence[str] = (),
    precision: Callable[[argparse.Namespace], str] = lambda _: "float32",
) -> Callable[..., Result]:
    """Returns the command of a benchmark.

    It measures, prints what was found and stores it. What the user can mend
    ends it with one line. It takes the arguments of the command line as a list
    of strings, and returns the `Result`.

    Args:
        name: string. The module below `benchmarks`, as `"serving.load"`.
        description: the docstring of the module; its first line is shown.
        example: string. Arguments that can be given.
        add_arguments: function that adds options to a parser.
        measure: function of the options that returns the rows.
        describe: function of the result that returns what is printed.
        packages: list of strings, see `find_origin`.
        precision: function of the options that says what is computed in.
    """
    program = f"python -m benchmarks.{name}"
    short_name = name.rpartition(".")[2]

    def main(arguments: Sequence[str] | None = None) -> Result:
        parser = argparse.ArgumentParser(
            prog=program,
            description=(description or "").partition("\n")[0],
            epilog=f"example: {program} {example}",
        )
        parser.add_argument(
            "--output",
            metavar="FILE.json",
            type=pathlib.Path,
            default=_OUTPUT / f"{short_name}.json",
            help="where to store all figures (default: %(default)s)",
        )
        add_arguments(parser)
        options = parser.parse_args(arguments)
        try:
            rows = measure(options)
        except (InputError, EngineError) as error:
            sys.exit(f"error: {error}")
        # Not before all engines have ended: TensorFlow's memory would count.
        load_tensorflow_quietly()
        given = sys.argv[1:] if arguments is None else arguments
        result = Result(
            benchmark=short_name,
            command=shlex.join([*program.split(), *given]),
            options={
                name: value
                for name, value in vars(options).items()
                if not isinstance(value, pathlib.Path)
            },
            precision=precision(options),
            origin=find_origin(packages),
            rows=rows,
        )
        print(f"{describe(result)}\n\n{origin_line(result.origin)}")
        result.write(options.output)
        print(f"Stored in {options.output}.")
        return result

    return main
