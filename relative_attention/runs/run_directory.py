"""Claims the folder that a training run fills."""

import pathlib
from collections.abc import Mapping
from typing import Any

from relative_attention.errors import InputError
from relative_attention.runs.recipe import CHANGEABLE_KEYS
from relative_attention.runs.recipe import Recipe
from relative_attention.runs.run_files import clear_run
from relative_attention.runs.run_files import has_trained
from relative_attention.runs.run_files import is_free
from relative_attention.runs.run_files import is_run
from relative_attention.runs.run_files import write_record


def check_resume(path: pathlib.Path | str, resume: bool | str) -> bool:
    """Returns whether to go on with the run in a folder.

    Args:
        path: The path of the folder.
        resume: A boolean, or `"auto"` for going on with the run if there is
            one.

    Raises:
        InputError: if `resume` is `True` and there is no run.
    """
    if resume is True and not is_run(path):
        raise InputError(
            f"{path} holds no run to go on with. Give the folder that `train` "
            "filled (`--output`, or runs/NAME); to start where there is none, "
            "and go on where there is one, pass `--resume=auto` with a recipe."
        )
    if resume not in (True, False, "auto"):
        raise InputError(
            '`resume` must be True, False or "auto". '
            f"Received: resume={resume!r}."
        )
    return bool(resume) and is_run(path)


def claim_run_directory(
    path: pathlib.Path | str,
    recipe: Recipe,
    resume: bool = False,
    overwrite: bool = False,
    files: Mapping[str, str] | None = None,
) -> pathlib.Path:
    """Makes sure that a folder may be used for a run, and writes the recipe.

    Nothing of a run that has trained is lost unless `overwrite`, and never
    what no run wrote. What a run left that came to no update, as its data
    could not be prepared, is no hindrance: it is replaced.

    Args:
        path: The path of the folder.
        recipe: The `Recipe` of the run.
        resume: A boolean to indicate whether to go on with the run in the
            folder.
        overwrite: A boolean to indicate whether to delete the run in the
            folder first.
        files: A dict of strings, the names that the recipe has for what it
            reads, and the paths; noted for resuming. Defaults to `None`.

    Returns:
        The path of the folder.

    Raises:
        InputError: if the folder holds something, unless it is a run and one
            of `resume` and `overwrite` is given; if `overwrite` is given and
            it holds what no run writes, or one of `files`; or if `resume` is
            given and the run there was made by another recipe.
    """
    path = pathlib.Path(path)
    files = files or {}
    if resume and overwrite:
        raise InputError("`--resume` and `--overwrite` exclude one another.")
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file, not a folder for a run.")
    if is_free(path):
        resume = False
    elif not is_run(path):
        raise InputError(
            f"{path} holds files but no run. Choose another `--output`."
        )
    elif overwrite:
        clear_run(path, files.values())
    elif not has_trained(path):
        # Vocabularies and the like may be of another recipe.
        if not (resume and _is_the_same_run(path, recipe)):
            clear_run(path, files.values(), keep_texts=True)
    elif resume:
        _check_same_run(path, recipe)
    else:
        raise InputError(
            f"{path} holds another run. Go on with it by `train --resume "
            f"{path}`, pass `--overwrite` to delete it, or choose another "
            "`--output`."
        )
    path.mkdir(parents=True, exist_ok=True)
    write_record(path, files)
    recipe.save(path / "recipe.yaml")
    return path


def _is_the_same_run(path: pathlib.Path, recipe: Recipe) -> bool:
    return (path / "recipe.yaml").is_file() and not _differences(path, recipe)


def _check_same_run(path: pathlib.Path, recipe: Recipe) -> None:
    for key, old, new in _differences(path, recipe):
        if key not in CHANGEABLE_KEYS:
            raise InputError(
                f"The run in {path} had `{key}` {old!r}, now it is {new!r}: "
                "it would not be the same run. Resume with the old value, or "
                f"choose another `--output`. What may change: "
                f"{', '.join(CHANGEABLE_KEYS)}."
            )


def _differences(
    path: pathlib.Path, recipe: Recipe
) -> list[tuple[str, Any, Any]]:
    """Returns triples of a key, the run's value, and the recipe's."""
    before = Recipe.load(path / "recipe.yaml").to_mapping()
    return [
        (f"{section}.{key}", before[section].get(key), value.get(key))
        for section, value in recipe.to_mapping().items()
        if section not in ("name", "description")
        for key in sorted(value.keys() | before[section].keys())
        if before[section].get(key) != value.get(key)
    ]
