"""What editors and type checkers know of the public names."""

import inspect
import os
import pathlib
import subprocess
import sys
import types

import pytest

import relative_attention

ROOT = pathlib.Path(__file__).parents[1]
NAMES = [name for name in relative_attention.__all__ if name != "__version__"]


def annotated_functions(public):
    """The functions a user of a public class or function calls."""
    if not inspect.isclass(public):
        return [public]
    names = ("__init__", "__call__", "call")
    names += tuple(name for name in vars(public) if not name.startswith("_"))
    found = [inspect.unwrap(vars(public).get(name, ...)) for name in names]
    return [f for f in found if isinstance(f, types.FunctionType)]


@pytest.mark.parametrize("name", NAMES)
def test_public_functions_are_annotated(name):
    public = getattr(relative_attention, name)
    if isinstance(public, types.ModuleType):
        return
    for function in annotated_functions(public):
        signature = inspect.signature(function)
        for parameter in signature.parameters.values():
            if parameter.name not in ("self", "cls"):
                assert parameter.annotation is not parameter.empty, (
                    function.__qualname__,
                    parameter.name,
                )
        if function.__name__ != "__init__":
            assert signature.return_annotation is not signature.empty, (
                function.__qualname__
            )


@pytest.mark.large
def test_type_checker_sees_names_and_what_they_take(tmp_path):
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
