"""Reads the variables of a TensorFlow checkpoint by their names."""

import pathlib
import re
from typing import Any

import numpy as np

from relative_attention.atomic_files import AnyPath
from relative_attention.errors import InputError

_INDEX = ".index"


class TensorFlowCheckpoint:
    """Reads what TensorFlow 1's `Saver` and `tf.train.Checkpoint` write.

    A checkpoint is a prefix of file names, not one file: `PREFIX.index` tells
    the name, shape and place of each variable, `PREFIX.data-00000-of-00001`
    and the like hold their bytes. The graph (`PREFIX.meta`) is not needed.

    Args:
        path: path. The prefix (`model.ckpt-250000`), or a folder that holds
            one checkpoint or a file `checkpoint` that names the latest.

    Attributes:
        prefix: A string, the prefix of the files.
        shapes: A dict of the shape, a tuple, of each variable by its name.

    Raises:
        InputError: if there is no such checkpoint, or it is damaged.
    """

    def __init__(self, path: AnyPath) -> None:
        import tensorflow as tf

        self.prefix = str(_find_prefix(pathlib.Path(path)))
        try:
            self._reader = tf.train.load_checkpoint(self.prefix)
            self.shapes: dict[str, tuple[int, ...]] = {
                name: tuple(shape)
                for name, shape in (
                    self._reader.get_variable_to_shape_map().items()
                )
            }
        except (tf.errors.OpError, ValueError, IndexError) as error:
            raise _damaged(self.prefix + _INDEX, error) from error

    def read(self, name: str) -> np.ndarray:
        """Returns one variable as a float32 array, whatever it is stored as.

        Raises:
            InputError: if the data is missing or cut short.
        """
        return np.asarray(self._get(name), np.float32)

    def read_bytes(self, name: str) -> bytes:
        """Returns a string that was saved among the variables.

        Raises:
            InputError: if the data is missing or cut short.
        """
        return bytes(self._get(name))

    def _get(self, name: str) -> Any:
        import tensorflow as tf

        try:
            return self._reader.get_tensor(name)
        # What TensorFlow's reader raises where a file ends too early differs
        # from one way of ending to the next.
        except (tf.errors.OpError, ValueError, IndexError) as error:
            raise _damaged(f"{self.prefix}.data-*", error) from error


def _find_prefix(path: pathlib.Path) -> pathlib.Path:
    """Returns the prefix that a prefix, an index file or a folder names."""
    if path.is_dir():
        return _latest(path)
    if path.name.endswith(_INDEX):
        path = path.with_name(path.name[: -len(_INDEX)])
    if path.with_name(path.name + _INDEX).is_file():
        return path
    found = _prefixes(path.parent)
    there = (
        f"{path.parent} holds {', '.join(found)}."
        if found
        else f"{path.parent} holds none."
    )
    raise InputError(
        f"No checkpoint {path}: it would have a file {path.name}{_INDEX}. "
        f"{there}"
    )


def _latest(directory: pathlib.Path) -> pathlib.Path:
    """Returns the prefix of the latest checkpoint of a folder."""
    found = _prefixes(directory)
    state = directory / "checkpoint"
    if state.is_file():
        # The file is a protocol buffer as text. Only the name is taken of a
        # path, which leads to where the model was trained.
        text = state.read_text(encoding="utf-8", errors="replace")
        named = re.search(r'^model_checkpoint_path: "(.+)"$', text, re.M)
        if named and pathlib.Path(named[1]).name in found:
            return directory / pathlib.Path(named[1]).name
    if len(found) == 1:
        return directory / found[0]
    if not found:
        raise InputError(
            f"{directory} holds no checkpoint: no file ends in {_INDEX}."
        )
    raise InputError(
        f"{directory} holds several checkpoints and does not say which is the "
        f"latest. Name one: {', '.join(found)}."
    )


def _prefixes(directory: pathlib.Path) -> list[str]:
    """Returns the names of all checkpoints of a folder, in order."""
    if not directory.is_dir():
        return []
    return sorted(
        path.name[: -len(_INDEX)] for path in directory.glob(f"*{_INDEX}")
    )


def _damaged(path: str, error: Exception) -> InputError:
    return InputError(
        f"{path} cannot be read: it is missing, cut short or damaged "
        f"({str(error).strip()}). Copy the checkpoint again, all its files."
    )
