"""How long the first translation of a process takes, and its memory.

The command starts in four ways: with Keras, with `--engine ctranslate2`, and,
to compare, the import of TensorFlow alone and CTranslate2 with SentencePiece
alone, without this package. All but the import translate one sentence with the
same model. From the root of a checkout, with the package and its extra
`ctranslate2` installed:

    python -m benchmarks.decoding.first_translation
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

import relative_attention as ra
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
_ENGINE = f"{_TRANSLATE} --engine ctranslate2"
_DIRECT = "CTranslate2 and SentencePiece alone"
_MODEL = "tatoeba_en_de"
_SENTENCE = "Where is the station?\n"
# A small process between, as the peak memory of a process is at least that of
# the process which starts it.
_TIMED = """
import os, subprocess, sys, time
start = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
used = usage.ru_utime + usage.ru_stime
print(time.perf_counter() - start, used, usage.ru_maxrss)
sys.exit(bool(status))
"""


class Used(NamedTuple):
    """What a process took.

    Attributes:
        seconds: float, from its start to its end.
        processor_seconds: float, of all cores.
        peak_mb: float, its largest resident memory, in 10^6 bytes.
    """

    seconds: float
    processor_seconds: float
    peak_mb: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the option of the command."""
    add_numbers(parser, rounds=5)


def measure(options: argparse.Namespace) -> list[Row]:
    """Starts the processes in turns; the first round fills the caches."""
    command = "import sys; from relative_attention.cli import main; "
    command += "sys.exit(main())"
    direct = (
        "import sys\n"
        "from benchmarks.decoding import translation_engine\n"
        "translate = translation_engine.make_ctranslate2(sys.argv[1], 1)\n"
        "print(*translate([sys.stdin.readline().strip()], 4))\n"
    )
    translate = ["-c", command, "translate", _MODEL]
    engine = ["--engine", "ctranslate2", "--threads", "1"]
    with tempfile.TemporaryDirectory() as folder:
        exported = os.path.join(folder, "exported")
        ra.export_ctranslate2(ra.load_translator(_MODEL), exported, "float32")
        commands = {
            _IMPORT: ["-c", _IMPORT],
            _TRANSLATE: translate,
            _ENGINE: [*translate, *engine],
            _DIRECT: ["-c", direct, exported],
        }
        used = round_robin(
            list(commands),
            lambda name: used_by(commands[name]),
            options.rounds,
        )
    return [
        {
            "process": name,
            **{
                key: [getattr(each, key) for each in used[name]]
                for key in Used._fields
            },
        }
        for name in commands
    ]


def used_by(arguments: Sequence[str]) -> Used:
    """Runs a new Python, which reads a sentence.

    Raises:
        EngineError: if it fails.
    """
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    # Without it, Python compiles a package at its first import alone.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", _TIMED, sys.executable, *arguments],
            input=_SENTENCE,
            env=environment,
            cwd=folder,
            text=True,
            capture_output=True,
        )
    if done.returncode:
        raise EngineError(f"{arguments} failed:\n{done.stderr}")
    seconds, processor_seconds, peak = map(float, done.stdout.split())
    # In KiB, but on macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return Used(seconds, processor_seconds, peak * unit / 1e6)


def describe(result: Result) -> str:
    """Returns the table, with ratios to Keras in the same round."""
    (base,) = (row for row in result.rows if row["process"] == _TRANSLATE)
    cells = [
        [
            f"`{row['process']}`",
            spread(row["seconds"]),
            spread(row["processor_seconds"]),
            spread(row["peak_mb"], 0),
            spread(ratios(row["processor_seconds"], base["processor_seconds"])),
        ]
        for row in result.rows
    ]
    header = [
        "process",
        "seconds",
        "processor seconds",
        "peak MB",
        "processor time, Keras = 1",
    ]
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
