"""What editors and type checkers know of the public names."""

import os
import pathlib
import subprocess
import sys

import pytest

import relative_attention

ROOT = pathlib.Path(__file__).parents[1]
NAMES = [name for name in relative_attention.__all__ if name != "__version__"]


@pytest.mark.large
def test_type_checker_sees_names_and_arguments(tmp_path):
    pytest.importorskip("mypy", reason="`pip install '.[lint]'` installs mypy")
    lines = [f"ra.{name}" for name in NAMES]
    script = tmp_path / "user.py"
    script.write_text(
        "import relative_attention as ra\n"
        + "\n".join(lines)
        + "\nra.presets().append(1)\nra.Transfomer\n"
    )
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--ignore-missing-imports", script],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        # An installation that can be edited is found by Python alone.
        env={**os.environ, "MYPYPATH": str(ROOT)},
    )
    errors = [line for line in result.stdout.splitlines() if "error:" in line]
    assert len(errors) == 2, result.stdout
    assert f"user.py:{len(lines) + 2}: " in errors[0] and "append" in errors[0]
    assert '"Transfomer"' in errors[1]
