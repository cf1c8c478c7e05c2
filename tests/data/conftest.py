"""Real text, where it is."""

import os
import pathlib

import pytest

from relative_attention.data.lines import read_lines

ROOT = pathlib.Path(__file__).parents[2]
DATA = pathlib.Path(
    os.environ.get("RELATIVE_ATTENTION_DATA", ROOT.parent / "shared" / "data")
)


@pytest.fixture(scope="session")
def multi30k():
    """`multi30k("train.en")`: the lines of a file of Multi30k."""
    folder = DATA / "multi30k"
    if not folder.is_dir():
        pytest.skip(
            "Multi30k is missing: set RELATIVE_ATTENTION_DATA to the folder "
            "that holds multi30k"
        )
    return lambda name: list(read_lines(folder / f"{name}.gz"))
