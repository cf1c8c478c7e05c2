"""Finds the text files of a recipe, and holds out lines."""

import contextlib
import dataclasses
import itertools
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from relative_attention.data import ParallelCorpus
from relative_attention.data.lines import find_text_file
from relative_attention.data.lines import read_lines
from relative_attention.data.split import LEFT_OUT
from relative_attention.data.split import TRAIN
from relative_attention.data.split import split_pairs
from relative_attention.errors import InputError
from relative_attention.files import atomic_directory
from relative_attention.files import file_sha256
from relative_attention.files import read_json_object
from relative_attention.files import write_json
from relative_attention.files import write_lines

DATA_VARIABLE = "RELATIVE_ATTENTION_DATA"
_SIDES = ("source", "target")
_FILES = tuple(
    f"{part}{side}" for part in ("", "validation_", "test_") for side in _SIDES
)
# The part that is held out, and the file of the parts of all lines.
_VALIDATION = 1
_PARTS = "parts.npy"
# The checksums of the texts that the files were made of.
_ORIGIN = "origin.json"


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
            origin), or only one file of a pair is named, or one for both.
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
    for part in ("", "validation_", "test_"):
        source, target = (found.get(f"{part}{side}") for side in _SIDES)
        # A model would learn to copy.
        if source and target and _is_same_file(source, target):
            raise InputError(
                f"`data.{part}source` and `data.{part}target` must be two "
                f"files. Received: {source} twice."
            )
    return dataclasses.replace(section, **found)


def _is_same_file(path: str, other: str) -> bool:
    # A known path may be gone.
    with contextlib.suppress(OSError):
        return os.path.samefile(path, other)
    return False


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


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """A corpus in two parts.

    Attributes:
        train: The `ParallelCorpus` to train on.
        validation: The `ParallelCorpus` to validate on.
        parts: An int array, for each line of the whole corpus its part, as
            `split_pairs` returns it.
    """

    train: ParallelCorpus
    validation: ParallelCorpus
    parts: np.ndarray

    @property
    def line_numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """The numbers, from 1, that the lines of both parts have in the whole.

        First of the training text, then of the validation text.
        """
        train, validation = (
            np.flatnonzero(self.parts == part) + 1
            for part in (TRAIN, _VALIDATION)
        )
        return train, validation

    @property
    def num_left_out(self) -> int:
        """How many lines are in neither: they share a held-out sentence."""
        return int(np.sum(self.parts == LEFT_OUT))


def texts_sha256(corpus: ParallelCorpus) -> dict[str, str]:
    """Returns the checksum of each text of a corpus."""
    return {side: file_sha256(getattr(corpus, side)) for side in _SIDES}


def hold_out(
    corpus: ParallelCorpus,
    num_lines: int,
    seed: int,
    directory: pathlib.Path | str,
    parts: np.ndarray | None = None,
) -> HeldOut:
    """Splits a corpus into a training and a validation corpus.

    Lines keep their order in both. No sentence is in both, see `split_pairs`.

    Args:
        corpus: `ParallelCorpus`. The corpus to split.
        num_lines: int. Number of lines to hold out; at most a tenth of all
            lines, and at least one.
        seed: int. Seed of the choice of lines.
        directory: path of a folder only for the files. Existing files are
            used, unless one is cut or missing, or they are of other texts.
        parts: int array, the parts of another corpus whose lines are the same
            in another language. Defaults to `None`: they are chosen.

    Returns:
        `HeldOut`.

    Raises:
        InputError: if the corpus is unusable, see `ParallelCorpus.check`, or
            no line can be held out.
    """
    directory = pathlib.Path(directory)
    names = {TRAIN: "train", _VALIDATION: "validation"}
    train, validation = (
        ParallelCorpus(*(str(directory / f"{name}.{side}") for side in _SIDES))
        for name in names.values()
    )
    corpus.check()
    origin = texts_sha256(corpus)
    # Of an earlier part of the run.
    with contextlib.suppress(InputError, OSError, ValueError):
        if read_json_object(directory / _ORIGIN) != origin:
            raise ValueError("The files are of another text.")
        written = HeldOut(train, validation, np.load(directory / _PARTS))
        # Written whole, but files may be lost or changed later.
        counts = [part.check() for part in (train, validation)]
        if counts == list(map(len, written.line_numbers)):
            return written
    if parts is None:
        parts = split_pairs(corpus, [num_lines], seed)
    if not {*names} <= {*parts}:
        raise InputError(
            f"No line of {corpus.source} can be held out to validate: its "
            "sentences are too often the same. Give another text as "
            "`data.validation_source` and `data.validation_target`."
        )
    with atomic_directory(directory) as folder:
        np.save(folder / _PARTS, parts)
        write_json(folder / _ORIGIN, origin)
        for part, name in names.items():
            for side in _SIDES:
                lines = read_lines(getattr(corpus, side))
                own = itertools.compress(lines, parts == part)
                write_lines(folder / f"{name}.{side}", own)
    return HeldOut(train, validation, parts)
