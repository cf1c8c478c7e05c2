"""Finds the text files of a recipe, and holds out lines."""

import contextlib
import dataclasses
import itertools
import os
import pathlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np

from relative_attention.data import ParallelCorpus
from relative_attention.data.lines import find_text_file
from relative_attention.data.lines import read_lines
from relative_attention.errors import InputError
from relative_attention.files import atomic_directory
from relative_attention.files import write_lines

DATA_VARIABLE = "RELATIVE_ATTENTION_DATA"
_SIDES = ("source", "target")
_FILES = tuple(
    f"{part}{side}" for part in ("", "validation_", "test_") for side in _SIDES
)
# The largest share of lines to hold out of a small corpus.
_LARGEST_SHARE = 0.1


def find_corpus(
    section: Any,
    data_directory: pathlib.Path | str | None = None,
    known: Mapping[str, str] | None = None,
) -> Any:
    """Replaces the names of a recipe's text files by paths.

    A file is searched for at its `known` path, at its name as a path, in
    `data_directory`, and in the folder of the environment variable
    `RELATIVE_ATTENTION_DATA`, in this order. In these two folders it may be in
    a subfolder with the name of the corpus. Everywhere, the file may also end
    in `.gz`.

    Args:
        section: `DataSection` of a recipe.
        data_directory: path of a folder. Defaults to `None`.
        known: dict of names to their paths when the run was started. Defaults
            to `None`.

    Returns:
        `DataSection` with paths that exist.

    Raises:
        InputError: if a file is not found (the error names the folders and the
            origin), or only one file of a pair is named.
    """
    for part in ("", "validation_", "test_"):
        names = [getattr(section, f"{part}{side}") for side in _SIDES]
        if (names[0] is None) != (names[1] is None) or (
            part == "" and names[0] is None
        ):
            raise InputError(
                f"`data.{part}source` and `data.{part}target` must both name "
                f"a file. Received: {names[0]} and {names[1]}. Give them as "
                f"`data.{part}source=FILE data.{part}target=FILE`."
            )
    found = {
        field: (known or {}).get(name)
        or find_file(name, section, data_directory)
        for field in _FILES
        if (name := getattr(section, field)) is not None
    }
    return dataclasses.replace(section, **found)


def find_file(
    name: str,
    section: Any,
    data_directory: pathlib.Path | str | None = None,
) -> str:
    """Finds a file of a recipe in the same way as its texts."""
    folders = [pathlib.Path()]
    # What is given for this run comes before what is set for all.
    for root in (data_directory, os.environ.get(DATA_VARIABLE)):
        if root:
            folders.append(pathlib.Path(root))
            if section.corpus:
                folders.append(pathlib.Path(root) / section.corpus)
    for folder in folders:
        path = find_text_file(folder / name)
        if path is not None:
            return path
    # The variable may name the folder of `--data`.
    looked = ", ".join({str(folder.absolute()): None for folder in folders})
    origin = f" Get it: {section.origin}" if section.origin else ""
    raise InputError(
        f"No text file {name} (or {name}.gz); looked in {looked}.{origin} "
        "Then say where it is, by `--data FOLDER` or the environment variable "
        f"{DATA_VARIABLE}."
    )


def named_files(section: Any, files: Any) -> dict[str, str]:
    """Returns the path, in `files`, of each text file that a recipe names."""
    return {
        name: getattr(files, field)
        for field in _FILES
        if (name := getattr(section, field)) is not None
    }


def hold_out(
    corpus: ParallelCorpus,
    num_lines: int,
    seed: int,
    directory: pathlib.Path | str,
) -> list[ParallelCorpus]:
    """Splits a corpus into a training and a validation corpus.

    Lines keep their order in both.

    Args:
        corpus: `ParallelCorpus`. The corpus to split.
        num_lines: int. Number of lines to hold out; at most a tenth of all
            lines, and at least one.
        seed: int. Seed of the choice of lines.
        directory: path of a folder only for the four files. Existing files are
            used, unless one is cut or missing.

    Returns:
        List of two `ParallelCorpus`, for training and for validation.

    Raises:
        InputError: if the corpus is unusable, see `ParallelCorpus.check`.
    """
    directory = pathlib.Path(directory)
    parts = ("train", "validation")
    corpora = [
        ParallelCorpus(*(str(directory / f"{part}.{side}") for side in _SIDES))
        for part in parts
    ]
    if directory.is_dir():
        # Of an earlier part of the run.
        with contextlib.suppress(InputError):
            for written in corpora:
                # Written whole, but files may be lost or changed later.
                written.check()
            return corpora
    held_out = _is_held_out(corpus.check(), num_lines, seed)
    with atomic_directory(directory) as folder:
        for part, is_own in zip(parts, (~held_out, held_out)):
            for side in _SIDES:
                lines = read_lines(getattr(corpus, side))
                own = itertools.compress(lines, is_own)
                write_lines(folder / f"{part}.{side}", own)
    return corpora


def line_numbers(
    corpora: Sequence[ParallelCorpus], num_lines: int, seed: int
) -> list[np.ndarray]:
    """Returns the numbers that the lines of both parts have in the whole.

    They begin at 1. `num_lines` and `seed` are as given to `hold_out`, which
    returned `corpora`.
    """
    total = sum(corpus.check() for corpus in corpora)
    held_out = _is_held_out(total, num_lines, seed)
    return [np.flatnonzero(lines) + 1 for lines in (~held_out, held_out)]


def _is_held_out(total: int, num_lines: int, seed: int) -> np.ndarray:
    """Returns a bool array `(total,)`, `True` for held-out lines."""
    # At least one, as a run needs a validation.
    num_lines = max(1, min(num_lines, int(total * _LARGEST_SHARE)))
    # By the total, too: another corpus draws other lines.
    random = np.random.default_rng([seed, total])
    held_out = np.zeros(total, bool)
    held_out[random.choice(total, num_lines, replace=False)] = True
    return held_out
