"""Which models a server has, and under which names."""

import pathlib
import re
from collections.abc import Sequence

from relative_attention.errors import InputError
from relative_attention.zoo import find_model

# What a path of the REST interface can have as the name of a model.
_NAME = re.compile(r"[\w.+ -]+")


def named_models(arguments: Sequence[str]) -> dict[str, pathlib.Path]:
    """Returns the folder of each model that is to be served, by name.

    Args:
        arguments: list of strings, each a name of the zoo, the path of a
            folder, whose base name is taken, or `NAME=PATH`.

    Raises:
        InputError: if there is no such model, a name cannot be one, or two
            models have one name.
    """
    folders: dict[str, pathlib.Path] = {}
    for argument in arguments:
        name, path = _name_and_path(argument)
        if not _NAME.fullmatch(name):
            raise InputError(
                "A model's name must be of letters, digits, blanks and any "
                f"of `_.+-`. Received: {name!r}. Give it another with "
                "NAME=PATH."
            )
        if name in folders:
            raise InputError(
                f"Two models have the name {name!r}: {folders[name]} and "
                f"{path}. Give one another with NAME=PATH."
            )
        folders[name] = path
    return folders


def _name_and_path(argument: str) -> tuple[str, pathlib.Path]:
    name, is_named, path = argument.partition("=")
    # A folder whose name has this sign goes before.
    if is_named and not pathlib.Path(argument).is_dir():
        return name, find_model(path)
    folder = find_model(argument)
    return folder.resolve().name, folder
