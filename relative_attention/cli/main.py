"""Reads the command line, and prints errors as one line."""

import argparse
import errno
import importlib.util
import os
import sys
from collections.abc import Sequence

from relative_attention.cli import benchmark
from relative_attention.cli import convert
from relative_attention.cli import evaluate
from relative_attention.cli import serve
from relative_attention.cli import show
from relative_attention.cli import train
from relative_attention.cli import translate
from relative_attention.cli.command import Command
from relative_attention.cli.command import spelled
from relative_attention.errors import InputError
from relative_attention.errors import is_out_of_memory
from relative_attention.errors import missing_package
from relative_attention.layers.positions import import_modules
from relative_attention.quiet_tensorflow import load_tensorflow_quietly
from relative_attention.version import __version__

# Longer error messages are cut, so that a message stays readable.
_MOST_CHARACTERS = 1500

# The commands that can translate by an engine, without Keras, and their options
# that need Keras.
_ENGINE_COMMANDS = ("translate", "serve")
_KERAS_OPTIONS = ("sample", "alignments", "checkpoint")

# `--help` lists the commands in this order.
_COMMANDS = (
    train.add_demo,
    train.add_data,
    train.add_train,
    train.add_study,
    train.add_distill,
    convert.add_average,
    translate.add_translate,
    evaluate.add_score,
    evaluate.add_evaluate,
    show.add_plot,
    convert.add_export,
    serve.add_serve,
    convert.add_convert,
    benchmark.add_benchmark,
    show.add_list,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status.

    Args:
        arguments: list of strings. Defaults to `None`, those of the process.

    Returns:
        0 on success; 1 if an input is wrong, with one line on standard error;
        130 if interrupted.
    """
    _open_closed_streams()
    options = parse(arguments)
    try:
        # Keras takes seconds to import.
        if not _does_without_keras(options):
            _load_keras()
        # Before any model is loaded: these modules register its classes.
        if getattr(options, "module", None):
            import_modules(options.module)
        options.run(options)
        sys.stdout.flush()
    except InputError as error:
        return _fail(str(error))
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("relative_attention"):
            raise
        return _fail(str(missing_package("This command", error)))
    except BrokenPipeError:
        # The reader has closed the pipe.
        _drop_unwritten()
        return 1
    except OSError as error:
        _drop_unwritten()
        if error.errno == errno.EBADF:
            return _fail(
                "Standard input or output is closed. Use a pipe, or name files "
                "by the options that `--help` lists."
            )
        return _fail(f"{error}. Finished files are kept.")
    except Exception as error:
        # Anything else is a bug, and a report of it needs the traceback.
        if not is_out_of_memory(error):
            raise
        return _fail(f"There is not enough memory.{_what_to_lower(options)}")
    except KeyboardInterrupt:
        print(f"\nInterrupted.{_way_to_resume(options)}", file=sys.stderr)
        # What shells give for a command that Ctrl-C ended: 128 + SIGINT.
        return 130
    return 0


def _open_closed_streams() -> None:
    """Makes closed streams (`<&-`, `>&-`, `2>&-`) fail when they are used.

    Python has `None` for them, and the next file that is opened would get the
    number of standard output.
    """
    # Input is opened for writing and output for reading: their use fails.
    # Messages are dropped.
    for name, mode, flags in (
        ("stdin", "r", os.O_WRONLY),
        ("stdout", "w", os.O_RDONLY),
        ("stderr", "w", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.open(os.devnull, flags), mode))


def _drop_unwritten() -> None:
    """Drops what standard output cannot take; Python would fail at its exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parses a command line.

    Args:
        arguments: list of strings. Defaults to `None`, those of the process.

    Returns:
        `argparse.Namespace`; its `run` runs the command.

    Raises:
        SystemExit: if an argument is wrong, or `--help` is asked for.
    """
    parser = Command(
        prog="relative-attention",
        description="Translation models with relative position "
        "representations.",
        epilog="Start with: relative-attention translate tatoeba_en_de",
    )
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {__version__}"
    )
    subparsers = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND"
    )
    for add_command in _COMMANDS:
        add_command(subparsers)
    return parser.parse_args(arguments)


def _fail(message: str) -> int:
    """Prints one line on standard error, and returns the exit status 1."""
    # A message may quote a file from elsewhere, with control characters that a
    # terminal would execute.
    shown = "".join(
        letter if letter.isprintable() else repr(letter)[1:-1]
        for letter in message
    )
    # It may also quote a line of text, which may be a whole book.
    if len(shown) > _MOST_CHARACTERS:
        half = _MOST_CHARACTERS // 2
        shown = f"{shown[:half]} [...] {shown[-half:]}"
    print(f"relative-attention: {shown}", file=sys.stderr)
    return 1


def _what_to_lower(options: argparse.Namespace) -> str:
    """Returns which options to lower to save memory; "" if there are none."""
    names = [
        spelled(name)
        for name in ("batch_tokens", "num_beams", "resamples")
        if hasattr(options, name)
    ]
    # These have the number in the recipe, not as an option.
    if options.command in ("train", "study"):
        names = ["`training.batch_tokens`"]
    return f" Lower {' or '.join(names)}." if names else ""


def _way_to_resume(options: argparse.Namespace) -> str:
    """Returns how to resume an interrupted command; "" if impossible."""
    if options.command == "train":
        # An interrupt may come before the recipe has named the folder.
        folder = options.output or "DIR"
        return f" Resume with `relative-attention train --resume {folder}`."
    is_resumable = options.command in ("distill", "study") or (
        options.command == "translate" and options.input and options.output
    )
    if not is_resumable:
        return ""
    # With `--overwrite`, the command would delete what it could resume.
    if getattr(options, "overwrite", False):
        return " Rerun the same command, without --overwrite, to resume."
    return " Rerun the same command to resume."


def _does_without_keras(options: argparse.Namespace) -> bool:
    """Returns whether a command only reads and writes files, or has an engine.

    If Keras is not installed, `translate` and `serve` use the engine.

    Raises:
        InputError: if a command needs Keras where it is absent.
    """
    if options.command == "list" and options.parameters is None:
        return True
    if getattr(options, "corpus", None) == "pairs":
        return True
    takes_engine = options.command in _ENGINE_COMMANDS
    if takes_engine and options.engine is not None:
        return True
    if importlib.util.find_spec("keras") is not None:
        return False
    name = f"`relative-attention {options.command}`"
    for option in _KERAS_OPTIONS:
        if takes_engine and getattr(options, option, None):
            takes_engine, name = False, f"{spelled(option)} of {name}"
    if not takes_engine:
        raise InputError(
            f"{name} needs Keras, which is not installed: install all that is "
            "needed to train and translate with `pip install .` in a checkout "
            "of relative-attention."
        )
    print("Keras is not installed: the engine is ctranslate2", file=sys.stderr)
    options.engine = "ctranslate2"
    return True


def _load_keras() -> None:
    """Starts Keras, or raises an error of one line."""
    try:
        load_tensorflow_quietly()
        import keras

        if keras.backend.backend() not in ("tensorflow", "jax", "torch"):
            raise ValueError(f"{keras.backend.backend()} cannot train")
    except (ImportError, ValueError) as error:
        raise InputError(
            f"Keras cannot start: {error}. Its backend, by the variable "
            "KERAS_BACKEND or keras.json, must be tensorflow, jax or torch, "
            "and installed."
        ) from error
    # Several processes must connect before JAX looks for devices; this is the
    # variable of `keras.distribution.initialize`.
    is_one = not os.environ.get("KERAS_DISTRIBUTION_JOB_ADDRESSES")
    if keras.backend.backend() == "jax" and is_one:
        import jax

        try:
            jax.devices()
        # An assertion, if JAX knows the kind of device and finds none.
        except (RuntimeError, AssertionError) as error:
            reason = " ".join(str(error).split()) or "no device was found"
            raise InputError(
                f"JAX cannot start: {reason}. Its devices, by the variable "
                "JAX_PLATFORMS, must be of this machine."
            ) from error
