"""The text that teachers translated for a student, in the run's folder.

distilled/origin.json        what it is made of: `Distillation`
distilled/held_out/          the recipe's text in two parts, if it has no
                             validation text
distilled/held_out-2/        likewise, the text that the second of those who
                             translate reads, if it is its own
distilled/translated-1       the translations, a file for all who translate
                             together, until they are joined with the recipe's
                             pairs; as long as not all are there,
                             `translated-1.partial` and `translated-1.journal`
distilled/train.source       what the student learns from: the recipe's
distilled/train.target       pairs, then the same lines translated
"""

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from relative_attention.errors import InputError
from relative_attention.files import atomic_file
from relative_attention.files import read_json_object
from relative_attention.runs.recipe import Recipe

DIRECTORY = "distilled"
TRANSLATED = "translated"
# As the recipe of the run names them: the record of the run says where they
# are, whatever it is called by then.
SOURCE = "distilled/train.source"
TARGET = "distilled/train.target"
VALIDATION_SOURCE = "distilled/held_out/validation.source"
VALIDATION_TARGET = "distilled/held_out/validation.target"
_ORIGIN = "distilled/origin.json"
# What runs from before there was a choice do not say.
_OF_OLD_RUNS: dict[str, Any] = {
    "backward": [],
    "separately": False,
    "closest_of": None,
}


@dataclasses.dataclass(frozen=True)
class Distillation:
    """What the translations of a student's training text depend on.

    Attributes:
        teachers: A list of dicts: `model`, as it was named, and
            `weights_sha256`; `text` and `text_sha256` of those that read a
            text of their own.
        backward: A list likewise, of those of the other direction.
        separately: A boolean, whether each translates alone.
        num_beams: An integer, of the beam search.
        length_penalty: A float, likewise.
        closest_of: An integer, of how many translations the one closest to the
            target is taken, or `None` for the best.
        text_sha256: A dict of the recipe's two training texts.
        held_out: A list of the number of lines held out and the seed, or
            `None` where there is a validation text.
    """

    teachers: list[dict[str, str]]
    backward: list[dict[str, str]]
    separately: bool
    num_beams: int
    length_penalty: float
    closest_of: int | None
    text_sha256: dict[str, str]
    held_out: list[int] | None

    def save(self, output: pathlib.Path) -> None:
        """Writes it to the folder of a run.

        Args:
            output: The path of the run.
        """
        with atomic_file(output / _ORIGIN, "w") as file:
            json.dump(dataclasses.asdict(self), file, indent=1)

    def comparable(self) -> dict[str, Any]:
        """Returns what decides over the translations, without names."""
        return _comparable(dataclasses.asdict(self))

    def check_same(self, output: pathlib.Path) -> None:
        """Refuses a run that has translations by others, or of other text.

        Args:
            output: The path of the run, which may not be there.

        Raises:
            InputError: naming what differs. By another path the same weights
                are the same teacher.
        """
        before = _read_origin(output)
        if before is None:
            # What a kill leaves of a file has a dot before its name.
            if any((output / DIRECTORY).glob("[!.]*")):
                raise InputError(
                    f"{output / _ORIGIN} is missing or damaged, so that it is "
                    f"not known whose translations are beside it. {_WAY_OUT}"
                )
            return
        now, then = self.comparable(), _comparable(before)
        for name, value in now.items():
            if then.get(name) != value:
                raise InputError(
                    f"{output} holds translations with other {_WORDS[name]}: "
                    f"they would not be of one kind. {_WAY_OUT}"
                )


_WAY_OUT = (
    "Pass `--overwrite` to delete them and the run, or choose another "
    "`--output`."
)
_WORDS = {
    "teachers": "teachers, or texts that these read",
    "backward": "teachers of the other direction, or texts that these read",
    "separately": "`--separately`",
    "num_beams": "`--num-beams`",
    "length_penalty": "`length_penalty` of the first teacher",
    "closest_of": "`--closest-of`",
    "text_sha256": "training texts",
    "held_out": "`data.held_out`, `training.seed` or validation text",
}


def file_sha256(path: pathlib.Path | str) -> str:
    """Returns the SHA-256 of a file's bytes, in hexadecimal.

    Args:
        path: The path of the file.

    Raises:
        InputError: if it cannot be read.
    """
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}.") from error


def paths(output: pathlib.Path | str) -> dict[str, str]:
    """Returns the names of the texts in a student's recipe, and their paths.

    Args:
        output: The path of the run.
    """
    names = (SOURCE, TARGET, VALIDATION_SOURCE, VALIDATION_TARGET)
    return {name: str(pathlib.Path(output) / name) for name in names}


def distilled_from(
    recipe: Recipe, output: pathlib.Path | str
) -> dict[str, Any]:
    """Returns what `results.json` says of the teachers, `{}` without any.

    Args:
        recipe: The `Recipe` of the run.
        output: The path of the run.
    """
    origin = _read_origin(output)
    if recipe.data.source != SOURCE or origin is None:
        return {}
    origin = {**_OF_OLD_RUNS, **origin}
    kept = (
        "teachers",
        "backward",
        "separately",
        "num_beams",
        "length_penalty",
        "closest_of",
    )
    return {"distilled_from": {name: origin.get(name) for name in kept}}


def _read_origin(output: pathlib.Path | str) -> dict[str, Any] | None:
    """Returns what `save` wrote, or `None` if it is not there, or damaged."""
    try:
        origin = read_json_object(pathlib.Path(output) / _ORIGIN)
        _comparable(origin)
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return origin


def _comparable(origin: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what decides over the translations, without names."""
    origin = {**_OF_OLD_RUNS, **origin}
    hashes = {
        name: [_hash_of(teacher) for teacher in origin[name]]
        for name in ("teachers", "backward")
    }
    return {**origin, **hashes}


def _hash_of(teacher: Mapping[str, str]) -> str:
    """Returns what a teacher's translations depend on.

    One that reads the recipe's text is known by its weights alone, as runs
    from before there were others have it.
    """
    weights = teacher["weights_sha256"]
    return (
        f"{weights}@{teacher['text_sha256']}" if "text" in teacher else weights
    )
