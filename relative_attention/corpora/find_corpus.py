"""Finds the text files that a recipe names."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import ClassVar
from typing import Protocol
from typing import TypeVar

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


class TextFiles(Protocol):
    """The section `data` of a recipe: a dataclass that names text files.

    It has the fields of `_FILES`, each a string or `None`, and these two.
    """

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    @property
    def corpus(self) -> str | None:
        """The name of the folder that holds the files."""

    @property
    def origin(self) -> str | None:
        """Where to get the corpus."""


_Section = TypeVar("_Section", bound=TextFiles)


def find_corpus(
    section: _Section,
    data_directory: pathlib.Path | str | None = None,
    known: Mapping[str, str] | None = None,
) -> _Section:
    """Replaces the names of a recipe's text files by paths.

    A file is looked for at the path that is `known` for it, as it is named,
    then in `data_directory`, then in the folder that the environment variable
    `RELATIVE_ATTENTION_DATA` names. In these two, it is also looked for in a
    sub-folder with the name of the corpus, and everywhere also with `.gz`
    added.

    Args:
        section: `DataSection` of a recipe.
        data_directory: path of a folder. Defaults to `None`.
        known: Mapping of names to the paths that they stood for when a run
            was started. Defaults to `None`.

    Returns:
        `DataSection` with paths that exist.

    Raises:
        InputError: if a file is not found, with the folders that it was looked
            for in and where to get it; or if only one of a pair is named.
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
    found: dict[str, Any] = {}
    for field in _FILES:
        name = getattr(section, field)
        if name is not None:
            found[field] = (known or {}).get(name) or _find(
                name, folders, section
            )
    return dataclasses.replace(section, **found)


def find_file(
    name: str,
    section: TextFiles,
    data_directory: pathlib.Path | str | None = None,
) -> str:
    """Returns the path of another file of a recipe, found as its texts are.

    Args:
        name: string. The file.
        section: `DataSection` of the recipe.
        data_directory: path of a folder. Defaults to `None`.

    Raises:
        InputError: if it is not found.
    """
    return _find(name, _folders(section.corpus, data_directory), section)


def named_files(
    section: TextFiles, files: TextFiles | None = None
) -> dict[str, str]:
    """Returns the names of text files in a recipe, and their paths.

    Args:
        section: `DataSection` of the recipe.
        files: `DataSection` that `find_corpus` made of it. Defaults to
            `section`.

    Returns:
        Dict of each name to its path.
    """
    return {
        getattr(section, field): getattr(files or section, field)
        for field in _FILES
        if getattr(section, field) is not None
    }


def _folders(
    corpus: str | None, data_directory: pathlib.Path | str | None
) -> list[pathlib.Path]:
    """Returns the folders to look in, the first one first."""
    folders = [pathlib.Path()]
    for root in (data_directory, os.environ.get(DATA_VARIABLE)):
        if root:
            folders.append(pathlib.Path(root))
            if corpus:
                folders.append(pathlib.Path(root) / corpus)
    return folders


def _find(
    name: str, folders: Sequence[pathlib.Path], section: TextFiles
) -> str:
    """Returns the path of a file in the first folder that has it."""
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
