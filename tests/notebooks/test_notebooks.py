"""Every notebook runs from top to bottom and shows what its text says.

What a notebook claims it asserts in its own cells, so that it stops where a
claim is wrong; here is what two of them show and do not assert.
"""

import ast
import json
import pathlib
import re

import nbformat
import pytest
from nbclient import NotebookClient

import relative_attention as ra

NOTEBOOKS = pathlib.Path(__file__).parents[2] / "notebooks"
NAMES = sorted(path.name for path in NOTEBOOKS.glob("*.ipynb"))


def read(name):
    return nbformat.read(NOTEBOOKS / name, as_version=4)


def code_of(name):
    """The code cells, without the lines that are not Python."""
    cells = [cell for cell in read(name).cells if cell.cell_type == "code"]
    return [
        re.sub(r"^( *)[%!].*", r"\1pass", cell.source, flags=re.MULTILINE)
        for cell in cells
    ]


def check_training(printed):
    (bleu,) = re.findall(r"^BLEU ([\d.]+) \(.*tok:13a", printed, re.MULTILINE)
    assert float(bleu) > 80


def check_graphs(printed):
    (guess,) = re.findall(r"most frequent answer ([\d.]+)%", printed)
    accuracies = dict(re.findall(r"knows (\w+) +([\d.]+)%", printed))
    assert float(accuracies["relations"]) > 99
    for kind in ("nothing", "distances"):
        assert float(accuracies[kind]) < float(guess) + 2
    (difference,) = re.findall(r"greatest difference: (\S+)", printed)
    assert float(difference) < 1e-5


CHECKS = {
    "3_train_a_translator.ipynb": check_training,
    "5_graphs.ipynb": check_graphs,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_notebook_runs(name):
    notebook = read(name)
    # Seconds for one cell; a whole notebook should take less.
    NotebookClient(notebook, timeout=180, kernel_name="python3").execute()
    printed = "".join(
        output.text
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output.output_type == "stream" and output.name == "stdout"
    )
    assert printed.count("\n") >= 3
    if name in CHECKS:
        CHECKS[name](printed)


@pytest.mark.parametrize("name", NAMES)
def test_notebook_is_valid_and_light(name):
    path = NOTEBOOKS / name
    nbformat.validate(json.loads(path.read_text("utf-8")))
    assert path.stat().st_size < 300_000


@pytest.mark.parametrize("name", NAMES)
def test_notebook_has_a_title_and_colab_setup(name):
    title, install, *_ = read(name).cells
    assert title.cell_type == "markdown" and title.source.startswith("# ")
    assert install.cell_type == "code"
    assert re.fullmatch(
        r'import sys\n\nif "google\.colab" in sys\.modules:\n'
        r'    %pip install --quiet "relative-attention\[[a-z0-9,]+\]"',
        install.source,
    )


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_of_one_clean_run(name):
    cells = [cell for cell in read(name).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(
        range(1, len(cells) + 1)
    )
    outputs = [output for cell in cells for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    for output in outputs:
        assert output.output_type != "error"
        assert output.get("name") != "stderr", output.text


@pytest.mark.parametrize("name", NAMES)
def test_notebook_has_no_local_path(name):
    # Images are base64, in which a slash means nothing.
    notebook = read(name)
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            output.get("data", {}).pop("image/png", None)
    found = re.findall(r"/(?:home|root|tmp|work|Users)/", str(notebook))
    assert not found


@pytest.mark.parametrize("name", NAMES)
def test_notebook_uses_only_public_names(name):
    for code in code_of(name):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom):
                assert not node.module.startswith("relative_attention")
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name.startswith("relative_attention"):
                        assert alias.name == "relative_attention"
                        assert alias.asname == "ra"
            elif isinstance(node, ast.Attribute):
                assert not node.attr.startswith("_"), node.attr
                if isinstance(node.value, ast.Name) and node.value.id == "ra":
                    assert node.attr in ra.__all__


@pytest.mark.parametrize("name", NAMES)
def test_every_link_to_a_file_is_right(name):
    for cell in read(name).cells:
        if cell.cell_type == "markdown":
            for link in re.findall(r"\]\(([^)#]+)\)", cell.source):
                if not link.startswith("http"):
                    assert (NOTEBOOKS / link).exists(), link
