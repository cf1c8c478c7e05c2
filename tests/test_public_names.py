"""The public names: all there, imported when used, and without a backend."""

import ast
import pathlib

import pytest

import relative_attention


def test_package_imports_without_keras_and_tensorflow(run_python):
    script = (
        "import sys, warnings\n"
        "warnings.simplefilter('error')\n"
        "sys.modules.update(tensorflow=None, keras=None)\n"
        "import relative_attention\n"
        "print(relative_attention.__version__)\n"
        "print('Transformer' in dir(relative_attention))\n"
        "print('sys' in dir(relative_attention))\n"
    )
    printed = run_python(script).split()
    assert printed == [relative_attention.__version__, "True", "False"]


def test_translation_imports_nothing_of_runs(run_python):
    script = (
        "import sys\n"
        "import relative_attention as ra\n"
        "from relative_attention.zoo import zoo_models\n"
        "translator = ra.load_translator(zoo_models()[0])\n"
        "assert translator.translate(['A dog.'])[0]\n"
        "print(*(m.split('.')[1] for m in sys.modules\n"
        "    if m.startswith('relative_attention.') and m.count('.') > 1))\n"
    )
    rooms = "ops layers training models data decoding saving text"
    assert set(run_python(script).split()) <= set(rooms.split())


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
