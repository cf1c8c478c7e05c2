"""Every notebook runs from top to bottom and shows what its text says.

What a notebook claims it asserts in its own cells, so that it stops where a
claim is wrong; here is what a reader would look for in the output.
"""

import ast
import functools
import importlib.util
import json
import pathlib
import re

import nbformat
import pytest
from nbclient import NotebookClient

import relative_attention as ra

NOTEBOOKS = pathlib.Path(__file__).parents[2] / "notebooks"
NAMES = sorted(path.name for path in NOTEBOOKS.glob("*.ipynb"))


@pytest.fixture(scope="session")
def printed_by():
    """`printed_by(name)`: what a notebook prints, run from top to bottom."""

    @functools.cache
    def run(name):
        notebook = read(name)
        # Seconds for one cell; a whole notebook should take less.
        NotebookClient(notebook, timeout=180, kernel_name="python3").execute()
        return printed(notebook)

    return run


def printed(notebook):
    """What the outputs of a notebook say was printed."""
    return "".join(
        output.text
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output.output_type == "stream" and output.name == "stdout"
    )


def read(name):
    return nbformat.read(NOTEBOOKS / name, as_version=4)


def code_of(name):
    """The code cells, without the lines that are not Python."""
    cells = [cell for cell in read(name).cells if cell.cell_type == "code"]
    return [
        re.sub(r"^( *)[%!].*", r"\1pass", cell.source, flags=re.MULTILINE)
        for cell in cells
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_notebook_runs_from_top_to_bottom(name, printed_by):
    assert printed_by(name).count("\n") >= 3


@pytest.mark.parametrize("name", NAMES)
def test_notebook_is_valid_and_light(name):
    path = NOTEBOOKS / name
    nbformat.validate(json.loads(path.read_text("utf-8")))
    assert path.stat().st_size < 300_000


@pytest.mark.parametrize("name", NAMES)
def test_notebook_begins_with_a_title_and_what_colab_needs(name):
    title, install, *_ = read(name).cells
    assert title.cell_type == "markdown" and title.source.startswith("# ")
    assert install.cell_type == "code"
    assert re.fullmatch(
        r'import sys\n\nif "google\.colab" in sys\.modules:\n'
        r'    %pip install --quiet "relative-attention\[[a-z0-9,]+\]"',
        install.source,
    )


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_those_of_one_run_without_complaint(name):
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
def test_notebook_names_no_place_of_the_machine_it_ran_on(name):
    # Images are base64, in which a slash means nothing.
    notebook = read(name)
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            output.get("data", {}).pop("image/png", None)
    found = re.findall(r"/(?:home|root|tmp|work|Users)/", str(notebook))
    assert not found


@pytest.mark.parametrize("name", NAMES)
def test_notebook_uses_public_names_alone(name):
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


@pytest.mark.slow
def test_relative_attention_by_hand_prints_its_tables(printed_by):
    out = printed_by("1_relative_attention_by_hand.ipynb")
    differences = re.findall(
        r"keys (\d), in values (\d): the two 'I' differ by (\S+)", out
    )
    assert [pair[:2] for pair in differences] == [
        ("0", "0"),
        ("1", "0"),
        ("0", "1"),
        ("1", "1"),
    ]
    assert [float(pair[2]) > 0.01 for pair in differences] == [
        False,
        True,
        True,
        True,
    ]
    assert "[[3 4 5 6 6 6 6 6 6 6]\n" in out
    for equal in re.findall(r"differs? (?:.*)by at most (\S+)", out):
        assert float(equal) < 1e-5


@pytest.mark.slow
def test_positions_compared_prints_what_becomes_of_each(printed_by):
    out = printed_by("2_positions_compared.ipynb")
    changes = dict(
        re.findall(r"(\w+) +changes the outputs by up to (\S+)", out)
    )
    assert {kind: float(change) < 1e-5 for kind, change in changes.items()} == {
        "none": True,
        "sinusoidal": False,
        "learned": False,
        "relative": True,
    }
    (lengths,) = re.findall(r"^length +(8 .*)$", out, re.MULTILINE)
    assert lengths.split()[-1] == "128"
    rows = re.findall(r"^([a-z]+) +((?: *\d+%)+)$", out, re.MULTILINE)
    at_128 = {kind: int(row.split()[-1][:-1]) for kind, row in rows}
    assert at_128["relative"] > 99
    assert at_128["sinusoidal"] < 30 and at_128["learned"] < 30
    paths = re.findall(r"^(\w\S+) +((?: +\d+){5})$", out, re.MULTILINE)
    longest = {name: int(row.split()[-1]) for name, row in paths}
    assert longest == {
        "length": 64,
        "self-attention": 1,
        "convolution": 21,
        "recurrence": 63,
    }


@pytest.mark.slow
def test_graphs(printed_by):
    out = printed_by("5_graphs.ipynb")
    (guess,) = re.findall(r"most frequent answer ([\d.]+)%", out)
    accuracies = dict(re.findall(r"knows (\w+) +([\d.]+)%", out))
    assert float(accuracies["relations"]) > 99
    for kind in ("nothing", "distances"):
        assert float(accuracies[kind]) < float(guess) + 2
    (difference,) = re.findall(r"greatest difference: (\S+)", out)
    assert float(difference) < 1e-5


@pytest.mark.slow
def test_keras_hub(printed_by):
    out = printed_by("6_keras_hub.ipynb")
    before, after = re.findall(r"in house style \w+: (\d+) of 48", out)
    assert int(before) < 5 and int(after) > 40
    (trained,) = re.findall(r"([\d,]+) of 2,668,544 numbers", out)
    assert trained == "52,224"
    sizes = re.findall(r"^\S+ +([\d.]+) MB$", out, re.MULTILINE)
    assert 10 * float(sizes[0]) < float(sizes[1])


@pytest.mark.slow
def test_train_a_translator(printed_by):
    printed = printed_by("3_train_a_translator.ipynb")
    (bleu,) = re.findall(r"^BLEU ([\d.]+) \(.*tok:13a", printed, re.MULTILINE)
    assert float(bleu) > 80
    (first, last) = re.findall(r"validation loss +(\S+) -> (\S+)", printed)[0]
    assert float(last) < float(first) / 10
    bleu_of = dict(re.findall(r"^(with.*?) +BLEU +([\d.]+)$", printed, re.M))
    assert len(bleu_of) == 4
    assert float(bleu_of["with both"]) == pytest.approx(float(bleu), abs=0.1)
    losses = re.findall(r"^(?:one device|two devices) +(.+)$", printed, re.M)
    one, two = ([float(loss) for loss in line.split()] for line in losses)
    assert len(one) == 8 and one[-1] < one[0]
    assert one == pytest.approx(two, rel=1e-4)


@pytest.mark.slow
def test_decode_and_export(printed_by):
    printed = printed_by("4_decode_and_export.ipynb")
    assert re.search("bike.\n    Ein Mann", printed)
    greedy, beams = re.findall(r"log P (-[\d.]+)  ", printed)
    assert float(greedy) < float(beams) < 0
    (scores,) = re.findall(r"by hand (\S+), ra.beam_search (\S+)", printed)
    assert float(scores[0]) == pytest.approx(float(scores[1]), abs=1e-3)
    table = re.findall(r"^ +([\d.]+) +([\d.]+) +(-[\d.]+)$", printed, re.M)
    assert [row[0] for row in table] == ["0.0", "0.6", "1.0", "4.0"]
    assert float(table[0][1]) <= float(table[-1][1])
    assert "the same 25 translations and scores" in printed
    if importlib.util.find_spec("ctranslate2"):
        (ended,) = re.findall(r"the same (\d+) greedy translations", printed)
        assert int(ended) > 20
    else:
        assert "skipped" in printed
