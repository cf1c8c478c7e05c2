"""Runs notebooks."""

import pathlib

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = pathlib.Path(__file__).parents[2] / "notebooks"


@pytest.fixture
def printed_by():
    """`printed_by(name)`: what a notebook prints, run from top to bottom."""

    def run(name):
        notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
        NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
        return "".join(
            output.text
            for cell in notebook.cells
            for output in cell.get("outputs", ())
            if output.output_type == "stream" and output.name == "stdout"
        )

    return run
