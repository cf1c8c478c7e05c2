"""Files and functions that can be read in one go."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[1]
FILES = [
    path.relative_to(ROOT)
    for folder in ("relative_attention", "tests", "benchmarks", "docs")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
MOST_LINES_OF_A_FILE = 400
MOST_LINES_OF_A_BODY = 60


def body_lines(function):
    """How many lines a function has behind its signature and docstring."""
    body = function.body[ast.get_docstring(function) is not None :]
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def test_body_is_what_stands_behind_the_docstring():
    tree = ast.parse(
        'def f(\n    x,\n):\n    """Does it.\n\n    Well.\n    """\n'
    )
    assert body_lines(tree.body[0]) == 0
    tree = ast.parse(
        'def f(x):\n    """Does it."""\n    y = (\n  x\n)\n    y\n'
    )
    assert body_lines(tree.body[0]) == 4


@pytest.mark.parametrize(
    "folder", ["relative_attention", "tests", "benchmarks"]
)
def test_no_file_and_no_function_is_too_long(folder):
    too_long = []
    for file in FILES:
        if file.parts[0] != folder:
            continue
        text = (ROOT / file).read_text("utf-8")
        num_lines = text.count("\n")
        if num_lines > MOST_LINES_OF_A_FILE:
            too_long.append(f"{file}: {num_lines} lines")
        too_long += [
            f"{file}: {node.name} has {body_lines(node)} lines"
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and body_lines(node) > MOST_LINES_OF_A_BODY
        ]
    assert not too_long
