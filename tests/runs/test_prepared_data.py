"""What is read of the texts before training, and what need not be."""

import os

import pytest

import relative_attention as ra
from relative_attention.corpora.recipe_text import find_corpus
from relative_attention.runs.prepared_data import check_texts
from relative_attention.runs.prepared_data import prepare_data


@pytest.fixture
def files(recipe, corpus, tmp_path):
    """The texts of the recipe, copied, to be damaged."""
    for path in corpus.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return find_corpus(recipe.data, tmp_path)


def damage(path):
    """Make a text unusable, and leave its size and time as they were."""
    stat = os.stat(path)
    with open(path, "r+b") as file:
        file.write(b"\xff")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.mark.parametrize("name", ["source", "validation_target"])
def test_texts_are_read_once_only(name, recipe, files, tmp_path):
    run = tmp_path / "run"
    prepare_data(recipe, files, run, lambda line: None)
    path = getattr(files, name)
    damage(path)
    check_texts(files, run)
    # A test set is not encoded; it is small, and read every time.
    os.utime(path)
    with pytest.raises(ra.InputError, match="line 1: not valid UTF-8"):
        check_texts(files, run)


@pytest.mark.parametrize("name", ["source", "validation_target", "test_source"])
def test_every_text_is_read_before_a_run(name, files, tmp_path):
    damage(getattr(files, name))
    os.utime(getattr(files, name))
    with pytest.raises(ra.InputError, match="line 1: not valid UTF-8"):
        check_texts(files, tmp_path / "run")
