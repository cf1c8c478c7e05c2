"""Runs notebooks."""

import functools
import pathlib

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = pathlib.Path(__file__).parents[2] / "notebooks"


@pytest.fixture(scope="session")
def printed_by():
    """`printed_by(name)`: what a notebook prints, run from top to bottom."""

    @functools.cache
    def run(name):
        notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
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
