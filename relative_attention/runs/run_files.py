"""Tells the files that a training run writes from those of others."""

import fnmatch
import json
import os
import pathlib
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from relative_attention.data.lines import find_text_file
from relative_attention.errors import InputError
from relative_attention.files import RUN_LOCK
from relative_attention.files import atomic_file
from relative_attention.files import read_json_object

# Written by runs alone; says where they were started and what they read.
RECORD = "run.json"
_FORMAT = 1
_TEXTS = ("cache/train/*", "cache/validation/*")
# What knows what it was made of, and may have taken long.
_KEPT = (*_TEXTS, "distilled/*")
# Names by folder. What a kill leaves of a file that was being written has a
# dot before its name and letters drawn at random after it.
_PATTERNS = [
    pattern.split("/")
    for pattern in (
        RUN_LOCK,
        RECORD,
        "recipe.yaml",
        "config.json",
        "history.json",
        "training.csv",
        "results.json",
        "curve.png",
        "attention.png",
        "best.safetensors",
        "model.safetensors",
        *(
            f"{side}vocabulary.{suffix}"
            for side in ("", "source_", "target_")
            for suffix in (
                "model",
                "subwords",
                "tokens",
                "tokens.sentencepiece",
            )
        ),
        "epochs/step-*.safetensors",
        *(
            f"checkpoints/{kind}-*/{name}"
            for kind in ("step", "stop", "damaged-step", "damaged-stop")
            for name in ("*.safetensors", "state.json")
        ),
        *(
            f"{texts}.{suffix}"
            for texts in _TEXTS
            for suffix in ("npy", "json")
        ),
        "cache/held_out/*.source",
        "cache/held_out/*.target",
        "distilled/origin.json",
        "distilled/translated-*",
        *(
            f"distilled/{name}.{side}"
            for name in (
                "train",
                "held_out/train",
                "held_out/validation",
                "held_out-*/train",
                "held_out-*/validation",
            )
            for side in ("source", "target")
        ),
        "logs/*/events.out.tfevents.*",
    )
]


def is_run(directory: pathlib.Path | str) -> bool:
    """Returns whether a folder holds a run, finished or not.

    It has the record that runs write; one from before there was a record has
    the ids of its texts, a checkpoint or a history beside its recipe. A
    recipe alone is no run.

    Args:
        directory: The path of the folder.
    """
    directory = pathlib.Path(directory)
    return bool(_read_record(directory)) or (
        (directory / "recipe.yaml").is_file()
        and (
            any(directory.glob("cache/*/origin.json")) or has_trained(directory)
        )
    )


def has_trained(directory: pathlib.Path | str) -> bool:
    """Returns whether a run has something to lose: an update, or a model."""
    directory = pathlib.Path(directory)
    return any(
        (directory / name).exists()
        for name in ("history.json", "results.json", "model.safetensors")
    ) or any(directory.glob("checkpoints/st[eo]p-*"))


def is_free(directory: pathlib.Path | str) -> bool:
    """Returns whether there is nothing at this path, or an empty folder."""
    directory = pathlib.Path(directory)
    return not directory.exists() or (
        directory.is_dir()
        and all(path.name == RUN_LOCK for path in directory.iterdir())
    )


def clear_run(
    directory: pathlib.Path | str,
    data: Iterable[str] = (),
    keep_texts: bool = False,
) -> None:
    """Deletes what a run wrote, and nothing else.

    Args:
        directory: The path of the run.
        data: The paths of files that are read.
        keep_texts: A boolean to indicate whether to leave the ids of the
            texts, and translations of them, which know what they were made
            of, and files that no run wrote. Defaults to `False`.

    Raises:
        InputError: if one of `data` is in the folder, or a file that no run
            writes; nothing is deleted then.
    """
    directory = pathlib.Path(directory).resolve()
    for file in data:
        if directory in pathlib.Path(file).resolve().parents:
            raise InputError(
                f"{file}, which the recipe reads, is in {directory}, the "
                "folder whose run would be deleted. Choose another "
                "`--output`, or move the file."
            )
    # All is looked at before the first file is deleted.
    files, folders = _content(directory)
    foreign = {
        path
        for paths, is_folder in ((files, False), (folders, True))
        for path in paths
        if not _is_of_a_run(path, directory, is_folder)
    }
    if foreign and not keep_texts:
        first = next(path for path in [*files, *folders] if path in foreign)
        raise InputError(
            f"{directory} holds {first.relative_to(directory)}, which no "
            "run writes: it is not deleted. Move it away, or choose another "
            "`--output`."
        )
    for path in files:
        name = path.relative_to(directory).as_posix()
        is_text = any(fnmatch.fnmatchcase(name, p) for p in _KEPT)
        if path in foreign or name == RUN_LOCK or (is_text and keep_texts):
            continue
        path.unlink()
    # The deepest first, as each must be empty.
    for path in folders:
        if path not in foreign and not any(path.iterdir()):
            path.rmdir()


def _content(
    directory: pathlib.Path,
) -> tuple[list[pathlib.Path], list[pathlib.Path]]:
    """Returns the files and folders in a folder, the deepest first."""
    files: list[pathlib.Path] = []
    folders: list[pathlib.Path] = []
    # Links are not followed, and no run makes any.
    for root, names, file_names in os.walk(directory, topdown=False):
        here = pathlib.Path(root)
        folders += [here / name for name in names]
        files += [here / name for name in file_names]
    return files, folders


def write_record(
    directory: pathlib.Path | str, files: Mapping[str, str]
) -> None:
    """Notes where a run was started and what it reads.

    Args:
        directory: The path of the run.
        files: A dict of strings, the names of files and folders in the
            recipe, and their paths.
    """
    record = {
        "format": _FORMAT,
        "started_in": os.getcwd(),
        "files": {name: os.path.abspath(path) for name, path in files.items()},
    }
    with atomic_file(pathlib.Path(directory) / RECORD, "w") as file:
        json.dump(record, file, indent=1)


def recorded_files(directory: pathlib.Path | str) -> dict[str, str]:
    """Returns the `files` of `write_record`, those that are still there."""
    files = _read_record(directory).get("files", {})
    return {
        name: path
        for name, path in files.items()
        if isinstance(path, str) and os.path.exists(path)
    }


def files_of_ids(
    directory: pathlib.Path | str, names: Iterable[str]
) -> dict[str, str]:
    """Finds the texts of a run without a record, beside those it encoded.

    Args:
        directory: The path of the run.
        names: The names of its texts in the recipe.

    Returns:
        A dict of strings, the names that were found and their paths.
    """
    # An ordered set.
    folders: dict[str, None] = {}
    for path in pathlib.Path(directory).glob("cache/*/origin.json"):
        try:
            encoded = [
                file[0] for file in json.loads(path.read_text())["files"]
            ]
        except (OSError, ValueError, LookupError, TypeError):
            continue
        for name in names:
            for text in encoded:
                if text.removesuffix(".gz").endswith(f"{os.sep}{name}"):
                    folders[text.removesuffix(".gz").removesuffix(name)] = None
    return {
        name: found
        for name in names
        for folder in folders
        if (found := find_text_file(folder + name)) is not None
    }


def _read_record(directory: pathlib.Path | str) -> dict[str, Any]:
    try:
        record = read_json_object(pathlib.Path(directory) / RECORD)
    except (OSError, ValueError):
        return {}
    if record.get("format") != _FORMAT:
        return {}
    return record if isinstance(record.get("files"), dict) else {}


def _is_of_a_run(
    path: pathlib.Path, directory: pathlib.Path, is_folder: bool
) -> bool:
    """Returns whether a run writes a file, or makes a folder, of this name."""
    if path.is_symlink():
        return False
    parts = path.relative_to(directory).parts
    return any(
        all(map(_matches, parts, pattern))
        and (
            len(parts) < len(pattern)
            if is_folder
            else len(parts) == len(pattern)
        )
        for pattern in _PATTERNS
    )


def _matches(name: str, pattern: str) -> bool:
    return any(fnmatch.fnmatchcase(name, p) for p in (pattern, f".{pattern}-*"))
