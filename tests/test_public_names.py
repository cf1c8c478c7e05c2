"""The public names: all there, imported when used, and without a backend."""

import ast
import json
import pathlib

import pytest

import relative_attention

# Each step imports more than the one before.
STEPS = """
import contextlib, io, json, sys, warnings
warnings.simplefilter("error")
import relative_attention
shown = [relative_attention.__version__, dir(relative_attention)]
from relative_attention.cli import main
for words in (["list"], ["train", "--help"]):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            assert not main(words)
        except SystemExit as leaving:
            assert not leaving.code
    shown.append(out.getvalue())
loaded = {"keras", "tensorflow", "torch", "jax"} & set(sys.modules)
print(json.dumps([*shown, *loaded]))
"""


def test_package_and_commands_that_need_no_backend_import_none(run_python):
    version, names, *shown = json.loads(run_python(STEPS))
    assert version == relative_attention.__version__
    assert "Transformer" in names and "sys" not in names
    assert len(shown) == 2, shown[2:]
    assert all("small_relative" in text for text in shown)


def test_unknown_name_raises():
    with pytest.raises(AttributeError, match="has no attribute 'Transfomer'"):
        relative_attention.Transfomer  # noqa: B018


def test_stub_has_every_public_name():
    stub = pathlib.Path(relative_attention.__file__).with_suffix(".pyi")
    names = [
        alias
        for node in ast.parse(stub.read_text("utf-8")).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    # `X as X` is what makes a name of a stub public.
    assert len(names) > 60
    assert all(alias.asname == alias.name for alias in names)
