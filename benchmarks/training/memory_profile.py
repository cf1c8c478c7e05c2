"""When training takes its memory.

The program trains the models of `training_speed`, one after the other, and
asks after some steps how large the resident set of the process has been at
most; and how large that of a process is which only imports what they need.
From the root of a checkout, with the package installed:

    python -m benchmarks.training.memory_profile --data DIR --peer opennmt-tf

`DIR` holds `train.en` and `train.de`, plain or `.gz`. OpenNMT-tf gets a
virtual environment of its own, made on first use (Python 3.11 or older). The
system must be Linux, which counts the memory of processes that go on.
"""

import argparse
import pathlib
import sys
import tempfile
from collections.abc import Sequence

from benchmarks.harness.command import benchmark
from benchmarks.harness.command import positive_int
from benchmarks.harness.engine import running_engines
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.speed_tables import memory_profile_table
from benchmarks.training.training_engines import ENVIRONMENT
from benchmarks.training.training_engines import PEER
from benchmarks.training.training_engines import add_engine_arguments
from benchmarks.training.training_engines import our_engines
from benchmarks.training.training_engines import peer_engine
from benchmarks.training.training_engines import prepare_peer
from benchmarks.training.workload import find_corpus
from benchmarks.training.workload import prepare_corpus
from relative_attention.errors import InputError

# What the engines import, the package's modules at the first use of a name.
_LIBRARIES = """
import benchmarks.training.keras_engine, relative_attention as ra
ra.Transformer, ra.AveragingAdam, ra.MaskedCrossEntropy, ra.TokenBatches
"""
_PEER_LIBRARIES = "import benchmarks.training.opennmt_tf_engine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_engine_arguments(parser, window=10)
    parser.add_argument(
        "--windows",
        type=positive_int,
        nargs="+",
        default=[1, 3, 8],
        metavar="N",
        help="after so many turns the memory is looked at (default: 1 3 8)",
    )


def measure(options: argparse.Namespace) -> list[Row]:
    """Trains all engines, one after the other."""
    if sys.platform != "linux":
        raise InputError(
            "Linux alone says how much memory a process had that goes on. "
            f"This is {sys.platform}: `training_speed` shows the peak there."
        )
    corpus = find_corpus(options.data)
    peer_python = prepare_peer(options)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        _, tokens = prepare_corpus(corpus, options.vocabulary_size, folder)
        ours = our_engines(corpus, options, folder, seed=0)
        libraries = _peak_of([sys.executable, "-c", _LIBRARIES], folder)
        rows = [
            _row(engine, libraries, command, options, folder)
            for engine, command in ours.items()
        ]
        if peer_python:
            # `-E`, as engines are started.
            imports = [peer_python, "-E", "-c", _PEER_LIBRARIES]
            peer = peer_engine(tokens, options, folder, 0, peer_python)
            libraries = _peak_of(imports, folder)
            rows.append(_row(PEER, libraries, peer, options, folder))
    return rows


def _peak_of(command: Sequence[str], folder: pathlib.Path) -> int:
    """Returns the peak memory of a command, in bytes."""
    with running_engines({"it": command}, folder, ENVIRONMENT) as engines:
        return engines["it"].finish()


def _row(
    name: str,
    libraries: int,
    command: Sequence[str],
    options: argparse.Namespace,
    folder: pathlib.Path,
) -> Row:
    """Returns how the memory of an engine grew while it trained."""
    peaks = {}
    with running_engines({name: command}, folder, ENVIRONMENT) as engines:
        for window in range(1, max(options.windows) + 1):
            engines[name].take_turn()
            if window in options.windows:
                peaks[window * options.window] = engines[name].peak_memory()
        engines[name].finish()
    sizes = ", ".join(f"{peak / 1e9:.2f}" for peak in peaks.values())
    print(f"{name}: {libraries / 1e9:.2f} GB, {sizes}", flush=True)
    return {
        "engine": name,
        "libraries_bytes": libraries,
        "steps": list(peaks),
        "peak_memory_bytes": list(peaks.values()),
    }


def describe(result: Result) -> str:
    """Returns the table of engines."""
    return (
        f"{memory_profile_table(result)}\n\n"
        "The largest resident set so far, and in brackets without what the "
        "import of the libraries takes."
    )


main = benchmark(
    "training.memory_profile",
    __doc__,
    "--data data/multi30k --peer opennmt-tf",
    add_arguments,
    measure,
    describe,
    precision=lambda options: " and ".join(options.precisions),
)

if __name__ == "__main__":
    main()
