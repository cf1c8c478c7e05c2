"""The folder of a run: who may use it, and what `--overwrite` may delete.

`run.json` marks a folder as a run, and records where the run was started and
its inputs. A folder without it is not touched.
"""

import os
import pathlib
import re
import shutil
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from relative_attention.errors import InputError
from relative_attention.files import RUN_LOCK
from relative_attention.files import read_json_object
from relative_attention.files import write_json
from relative_attention.recipes.recipe import CHANGEABLE_KEYS
from relative_attention.recipes.recipe import Recipe
from relative_attention.recipes.recipe import values_by_key

RECORD = "run.json"
_FORMAT = 1
# What a run writes into its folder.
_WRITTEN = (
    RUN_LOCK,
    RECORD,
    "recipe.yaml",
    "config.json",
    "training.csv",
    "history.json",
    "results.json",
    "curve.png",
    "attention.png",
    "best.safetensors",
    "model.safetensors",
    *(
        f"{side}vocabulary.{kind}"
        for side in ("", "source_", "target_")
        for kind in ("model", "subwords", "tokens", "tokens.sentencepiece")
    ),
    "cache",
    "checkpoints",
    "distilled",
    "epochs",
    "logs",
)


def check_resume(path: pathlib.Path | str, resume: bool | str) -> bool:
    """Returns whether to resume the run in a folder.

    Args:
        path: The path of the folder.
        resume: A boolean, or `"auto"` to resume the run if there is one.

    Raises:
        InputError: if `resume` is `True` and there is no run.
    """
    if resume not in (True, False, "auto"):
        raise InputError(
            '`resume` must be True, False or "auto". '
            f"Received: resume={resume!r}."
        )
    has_run = is_run(pathlib.Path(path))
    if resume is True and not has_run:
        raise InputError(
            f"{path} holds no run to resume. Give the folder that `train` "
            "filled (`--output`, or runs/NAME). To start a run if there is "
            "none, pass `--resume=auto` with a recipe."
        )
    return bool(resume) and has_run


def claim_run_directory(
    path: pathlib.Path,
    recipe: Recipe,
    resume: bool = False,
    overwrite: bool = False,
    files: Mapping[str, str] | None = None,
) -> None:
    """Checks that a folder may be used for a run, and records a new one.

    A run that has trained is only deleted with `overwrite`, and not if the
    folder has anything that no run writes. A run without a checkpoint, for
    example because its data could not be prepared, is replaced. The record of a
    run that has trained stays as it is until `record_run`, which also explains
    `files`.
    """
    files = files or {}
    if resume and overwrite:
        raise InputError("`--resume` and `--overwrite` exclude one another.")
    match _state(path), resume, bool(overwrite):
        case "file", _, _:
            raise InputError(f"{path} is a file, not a folder for a run.")
        case "foreign", _, _:
            raise InputError(
                f"{path} holds files but no run. Choose another `--output`."
            )
        case "free", _, _:
            pass
        case _, _, True:
            _delete_run(path, files.values())
        case "begun", True, _ if _has_recipe(path, recipe):
            pass
        case "begun", _, _:
            # Vocabularies and other files may be of another recipe.
            _delete_set_up(path, files.values())
        case "trained", True, _:
            _check_same_recipe(path, recipe)
            return
        case _:
            raise InputError(
                f"{path} holds another run. Resume it by `train --resume "
                f"{path}`, pass `--overwrite` to delete it, or choose another "
                "`--output`."
            )
    record_run(path, recipe, files)


def record_run(
    path: pathlib.Path, recipe: Recipe, files: Mapping[str, str]
) -> None:
    """Writes what resuming needs: the recipe, and where its texts are.

    `files` are the recipe's names of its inputs, and their paths.
    """
    write_record(path, files)
    recipe.save(path / "recipe.yaml")


def _state(path: pathlib.Path) -> str:
    """Returns what a path is: file, free, foreign, begun or trained.

    A run that has begun has no checkpoint yet.
    """
    if is_run(path):
        return "trained" if has_trained(path) else "begun"
    if path.exists() and not path.is_dir():
        return "file"
    # This process may hold the lock already.
    is_free = not path.exists() or all(
        inside.name == RUN_LOCK for inside in path.iterdir()
    )
    return "free" if is_free else "foreign"


def _has_recipe(path: pathlib.Path, recipe: Recipe) -> bool:
    """Returns whether a run that has begun is of this recipe."""
    has_one = (path / "recipe.yaml").is_file()
    return has_one and not _differences(path, recipe)


def is_run(directory: pathlib.Path) -> bool:
    """Returns whether a folder holds a run, finished or not."""
    return bool(_read_record(directory))


def write_record(directory: pathlib.Path, files: Mapping[str, str]) -> None:
    """Records where a run was started, and its inputs."""
    record = {
        "format": _FORMAT,
        # For people: relative names of the recipe began there.
        "started_in": os.getcwd(),
        "files": {name: os.path.abspath(path) for name, path in files.items()},
    }
    write_json(directory / RECORD, record)


def recorded_files(
    directory: pathlib.Path, data_directory: pathlib.Path | str | None = None
) -> dict[str, str]:
    """Returns the `files` of `write_record` that still exist.

    Until the run has trained, those of `data_directory` replace them, but for
    files that the run itself wrote.
    """
    files = _read_record(directory).get("files", {})
    may_change = data_directory is not None and not has_trained(directory)
    return {
        name: path
        for name, path in files.items()
        if isinstance(path, str)
        and os.path.exists(path)
        and (
            not may_change
            or pathlib.Path(path).is_relative_to(directory.absolute())
        )
    }


def _read_record(directory: pathlib.Path) -> dict[str, Any]:
    try:
        record = read_json_object(directory / RECORD)
    except (OSError, ValueError):
        return {}
    # A file of this name may be of another program.
    is_known = record.get("format") == _FORMAT
    return record if is_known and isinstance(record.get("files"), dict) else {}


def has_trained(directory: pathlib.Path) -> bool:
    """Returns whether a run has saved a checkpoint or a model."""
    # One of them is enough: a checkpoint may be set aside or deleted.
    return any(
        (directory / name).exists()
        for name in ("training.csv", "results.json", "model.safetensors")
    ) or any(directory.glob("checkpoints/st[eo]p-*"))


def _check_same_recipe(path: pathlib.Path, recipe: Recipe) -> None:
    for key, old, new in _differences(path, recipe):
        # These change how long a run is and what it keeps, not its updates.
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
    before = values_by_key(Recipe.load(path / "recipe.yaml"))
    now = values_by_key(recipe)
    return [
        (key, before.get(key), now.get(key))
        for key in {**before, **now}
        if before.get(key) != now.get(key)
    ]


def _delete_run(directory: pathlib.Path, data: Iterable[str]) -> None:
    """Deletes a run, unless other files would be lost.

    These are files of `data`, which the recipe reads, and what no run writes.
    """
    own, others = _content(directory, data)
    # Nothing is deleted yet: a run is kept whole, or goes whole.
    if others:
        raise InputError(
            f"{others[0].parent} holds {others[0].name}, which no run writes: "
            "it is not deleted. Move it away, or choose another `--output`."
        )
    for path in own:
        _delete(path)


def _delete_set_up(directory: pathlib.Path, data: Iterable[str]) -> None:
    """Deletes what a run prepared, unless the recipe reads it.

    Token ids and translations stay: they record their inputs, and may have
    taken long to make. Files that no run writes stay, too.
    """
    own, _ = _content(directory, data)
    for path in own:
        if path.name == "cache":
            # Unlike the ids there, these do not record their inputs.
            for name in ("held_out", "variants"):
                shutil.rmtree(path / name, ignore_errors=True)
        elif path.name != "distilled":
            _delete(path)


def _content(
    directory: pathlib.Path, data: Iterable[str]
) -> tuple[list[pathlib.Path], list[pathlib.Path]]:
    """Returns what runs write in a folder, but its lock, and what they do not.

    Raises:
        InputError: if one of the files `data` is in the folder.
    """
    # Links would hide that a file is inside.
    directory = directory.resolve()
    for file in data:
        if directory in pathlib.Path(file).resolve().parents:
            raise InputError(
                f"{file}, which the recipe reads, is in {directory}, the "
                "folder whose run would be deleted. Choose another "
                "`--output`, or move the file."
            )
    own, others = [], []
    # Sorted, so that the same file is named each time.
    for path in sorted(directory.iterdir()):
        # No run makes links.
        is_own = _is_written(path.name) and not path.is_symlink()
        if not is_own:
            others.append(path)
        elif path.name != RUN_LOCK:
            own.append(path)
    return own, others


def _delete(path: pathlib.Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def delete_torn_files(directory: pathlib.Path) -> None:
    """Deletes the files and cached ids that a dead process was writing.

    Only to be called by the process that writes the run.
    """
    torn = [path for path in directory.glob(".*") if _is_written(path.name)]
    for path in [*torn, *directory.glob("epochs/.step-*")]:
        if path.is_file():
            path.unlink()
    for path in directory.glob("cache/.*-*"):
        shutil.rmtree(path, ignore_errors=True)


def _is_written(name: str) -> bool:
    """Returns whether a run writes a file or folder of this name."""
    # A file that was being written during a kill has a dot before its name, and
    # random letters after it.
    return re.sub(r"^\.(.+)-\w+$", r"\1", name) in _WRITTEN
