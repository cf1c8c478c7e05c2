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


LINES = (
    Line(
        "ops/relative_positions.py",
        "distance, -max_relative_position, max",
        "distance, -max_relative_position - 1, max",
        "tests/ops",
    ),
    Line(
        "ops/masks.py",
        "ops.less_equal(",
        "ops.less(",
        "tests/ops tests/layers",
    ),
    Line(
        "ops/block_backward.py",
        "(d_scores[index] - row_term)",
        "(d_scores[index] + row_term)",
        "tests/ops tests/layers",
    ),
    Line(
        "ops/relative_shift.py",
        "positions[None, :-1] >= positions[:, None]",
        "positions[None, :-1] > positions[:, None]",
        "tests/ops tests/layers",
    ),
    Line(
        "layers/sinusoidal_positions.py",
        "num_timescales - 1, 1",
        "num_timescales, 1",
        "tests/layers/test_sinusoidal_positions.py",
    ),
    Line(
        "layers/cached_attention.py",
        "context = context + farthest\n",
        "context = context\n",
        "tests/layers tests/models tests/decoding",
    ),
    Line(
        "layers/token_embedding.py",
        "ops.cast(padding_mask(inputs), rows.dtype)",
        "ops.ones_like(inputs, rows.dtype)",
        "tests/layers tests/models",
    ),
    Line(
        "models/decoder_inputs.py",
        "[..., :1], start_token_id)",
        "[..., :1], 0)",
        "tests/models tests/data tests/decoding",
    ),
    Line(
        "models/finite_update.py",
        "inner.global_clipnorm * scale",
        "inner.global_clipnorm",
        "tests/models tests/training",
    ),
    Line(
        "data/token_batches.py",
        "maximum(batch_tokens // lengths, 1)",
        "maximum(batch_tokens // lengths + 1, 1)",
        "tests/data",
    ),
    Line(
        "data/keyed_permutation.py",
        "values[outside] >= sizes",
        "values[outside] > sizes",
        "tests/data",
    ),
    Line(
        "decoding/length_penalty.py",
        "(5.0 + length) / 6.0",
        "(6.0 + length) / 6.0",
        "tests/decoding",
    ),
    Line(
        "decoding/beam_search_loop.py",
        "is_done, state.beam_log_probs",
        "is_broken, state.beam_log_probs",
        "tests/decoding",
    ),
    Line(
        "training/transformer_schedule.py",
        "step = step + 1.0",
        "step = step + 2.0",
        "tests/training/test_transformer_schedule.py",
    ),
    Line(
        "ops/label_smoothing.py",
        "label_smoothing / max(vocabulary_size - 1, 1)",
        "label_smoothing / max(vocabulary_size, 1)",
        "tests/training/test_masked_cross_entropy.py",
    ),
    Line(
        "training/averaging_adam.py",
        '"float32") - 1.0\n',
        '"float32")\n',
        "tests/training",
    ),
    Line(
        "convert/tensor2tensor/names.py",
        'norm_scale": layer.gamma',
        'norm_scale": layer.beta',
        "tests/convert",
    ),
    Line(
        "evaluation/paired_bootstrap.py",
        "1.0 if result.score == first.score else result.p_value",
        "result.p_value",
        "tests/evaluation",
    ),
    Line(
        "runs/run_directory.py",
        "_check_same_run(path, recipe)\n",
        "pass\n",
        "tests/runs tests/cli",
    ),
    Line(
        "atomic_files.py",
        "temporary if temporary.exists() else aside, path",
        "aside, path",
        "tests/test_atomic_files.py tests/test_atomic_recovery.py",
    ),
    Line(
        "cli/main.py",
        "file=sys.stderr)\n    return 1",
        "file=sys.stderr)\n    return 0",
        "tests/cli",
    ),
)


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
