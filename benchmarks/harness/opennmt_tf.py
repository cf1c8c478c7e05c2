"""OpenNMT-tf, the peer that training and translating are compared with.

Its last release needs TensorFlow 2.13, so it lives in an environment of its
own, which is made here on first use.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Sequence

from relative_attention.errors import InputError

NAME = "OpenNMT-tf 2.32.0"
# tensorflow-text is left out: it is needed for SentencePiece in the graph
# alone, and for want of its wheel pip would go back to TensorFlow 2.12.
_REQUIREMENTS = {"OpenNMT-tf": "2.32.0", "tensorflow": "2.13.1"}
# The newest Python that TensorFlow 2.13 has wheels for.
_NEWEST_PYTHON = (3, 11)
_CHARACTERS_OF_ERROR = 2000


def add_peer_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives a command the options `--peer` and `--peer-environment`."""
    parser.add_argument(
        "--peer", choices=["opennmt-tf"], help="a peer to measure as well"
    )
    add_environment_argument(parser)


def add_environment_argument(parser: argparse.ArgumentParser) -> None:
    """Gives a command the option `--peer-environment`."""
    parser.add_argument(
        "--peer-environment",
        metavar="DIR",
        default=".venv-opennmt-tf",
        help="its virtual environment, made if need be (default: %(default)s)",
    )


def prepare_environment(folder: str) -> str:
    """Makes OpenNMT-tf's virtual environment, unless it is there.

    Args:
        folder: The path of the environment.

    Returns:
        The path of its Python.

    Raises:
        InputError: If it cannot be made.
    """
    python = pathlib.Path(folder, "bin", "python").absolute()
    if _is_installed(python):
        return str(python)
    print(f"Installing {NAME} in {folder} (a few minutes) ...", flush=True)
    pins = [f"{name}=={version}" for name, version in _REQUIREMENTS.items()]
    _run([_base_python(), "-m", "venv", folder])
    _run([str(python), "-m", "pip", "install", "--quiet", *pins])
    if not _is_installed(python):
        raise InputError(
            f"{' and '.join(pins)} are not in {folder} after their "
            "installation. Remove the folder and try again."
        )
    return str(python)


def write_vocabulary(path: pathlib.Path, size: int) -> None:
    """Writes pieces as their ids, so that no piece is torn at a blank in it.

    Args:
        path: The path of the file to write.
        size: An integer, the number of pieces.
    """
    pieces = ["<blank>", "<s>", "</s>", *map(str, range(3, size))]
    path.write_text("\n".join(pieces) + "\n")


def _is_installed(python: pathlib.Path) -> bool:
    """Returns whether an environment's Python has the versions wanted."""
    code = "import importlib.metadata as m; print(" + ", ".join(
        f"m.version({name!r})" for name in _REQUIREMENTS
    )
    try:
        answer = subprocess.run(
            [python, "-c", code + ")"], capture_output=True, text=True
        )
    except OSError:
        return False
    return answer.stdout.split() == list(_REQUIREMENTS.values())


def _base_python() -> str:
    """Returns a Python that the environment can be made with."""
    if sys.version_info[:2] <= _NEWEST_PYTHON:
        return sys.executable
    name = "python" + ".".join(map(str, _NEWEST_PYTHON))
    if python := shutil.which(name):
        return python
    raise InputError(
        f"{NAME} needs {name}, which is not on the path. Install it, or make "
        "the environment elsewhere and pass `--peer-environment`."
    )


def _run(command: Sequence[str]) -> None:
    """Runs a command that makes the environment."""
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode:
        raise InputError(
            f"`{' '.join(command)}` failed:\n"
            f"{answer.stderr[-_CHARACTERS_OF_ERROR:]}"
        )
