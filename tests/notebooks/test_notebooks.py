"""Every notebook runs from top to bottom and shows what its text says."""

import pathlib
import re

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = pathlib.Path(__file__).parents[2] / "notebooks"


def run(name):
    """What the notebook prints, run anew."""
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    return "".join(
        output.text
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output.output_type == "stream" and output.name == "stdout"
    )


@pytest.mark.large
def test_graphs():
    printed = run("5_graphs.ipynb")
    (guess,) = re.findall(r"most frequent answer ([\d.]+)%", printed)
    accuracies = dict(re.findall(r"knows (\w+) +([\d.]+)%", printed))
    assert float(accuracies["relations"]) > 99
    for kind in ("nothing", "distances"):
        assert float(accuracies[kind]) < float(guess) + 2
    (difference,) = re.findall(r"greatest difference: (\S+)", printed)
    assert float(difference) < 1e-5
