"""Where the text files of a recipe are."""

import dataclasses
import os
import pathlib

from relative_attention.data.lines import find_text_file
from relative_attention.errors import InputError

DATA_VARIABLE = "RELATIVE_ATTENTION_DATA"
_SIDES = ("source", "target")
_FILES = (
    "source",
    "target",
    "validation_source",
    "validation_target",
    "test_source",
    "test_target",
)


def find_corpus(section, data_directory=None, known=None):
    """Replace the names of a recipe's text files by paths.

    A file is looked for where it is `known` to be, as it is named, then in
    `data_directory`, then in the folder that the environment variable
    `RELATIVE_ATTENTION_DATA` names; in these two also in a sub-folder of the
    corpus' name; everywhere also with `.gz` added.

    Args:
        section: `DataSection`.
        data_directory: path, or `None`.
        known: dict of strings, names and the paths that they stood for when
            a run was started. Defaults to `None`, none.

    Returns:
        `DataSection` with paths that exist.

    Raises:
        InputError: if a file is not found, saying where it was looked for and
            where to get it; or if only one of a pair is named.
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
    folders = _folders(section.corpus, data_directory)
    found = {}
    for field in _FILES:
        name = getattr(section, field)
        if name is not None:
            found[field] = (known or {}).get(name) or _find(
                name, folders, section
            )
    return dataclasses.replace(section, **found)


def find_file(name, section, data_directory=None):
    """The path of another file of a recipe, looked for as its texts are.

    Raises:
        InputError: if it is not found.
    """
    return _find(name, _folders(section.corpus, data_directory), section)


def named_files(section, files=None):
    """The names of text files in a recipe, and their paths.

    Args:
        section: `DataSection` of the recipe.
        files: what `find_corpus` made of it. Defaults to `section`.

    Returns:
        Dict of strings.
    """
    return {
        getattr(section, field): getattr(files or section, field)
        for field in _FILES
        if getattr(section, field) is not None
    }


def _folders(corpus, data_directory):
    folders = [pathlib.Path()]
    for root in (data_directory, os.environ.get(DATA_VARIABLE)):
        if root:
            folders.append(pathlib.Path(root))
            if corpus:
                folders.append(pathlib.Path(root) / corpus)
    return folders


def _find(name, folders, section):
    for folder in folders:
        path = find_text_file(folder / name)
        if path is not None:
            return path
    looked = ", ".join(str(folder.absolute()) for folder in folders)
    origin = f" Get it: {section.origin}" if section.origin else ""
    raise InputError(
        f"No text file {name} (or {name}.gz); looked in {looked}.{origin} "
        "Then say where it is, by `--data FOLDER` or the environment variable "
        f"{DATA_VARIABLE}."
    )
