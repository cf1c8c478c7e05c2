"""How the teachers of a student are named: `MODEL`, or `MODEL@TEXT`."""

import dataclasses
import pathlib
from collections.abc import Sequence

from relative_attention.errors import InputError
from relative_attention.zoo import find_model


@dataclasses.dataclass(frozen=True)
class TeacherName:
    """A trained model, and what it reads.

    Attributes:
        model: A string or path, the folder of a trained model, or a name of
            the zoo.
        text: A string, the name of a text that is the recipe's in another
            language, line by line; `None` for the recipe's own.
    """

    model: pathlib.Path | str
    text: str | None = None


def read_teacher_names(
    argument: str,
    names: Sequence[pathlib.Path | str],
    output: pathlib.Path,
) -> list[TeacherName]:
    """Reads the names of teachers, and makes sure that they are there.

    Args:
        argument: The name of the argument that has them.
        names: A list of folders of trained models, or names of the zoo, each
            alone or with `@` and the name of a text. A folder whose name has
            an `@` goes before that.
        output: The path of the student's folder.

    Returns:
        A list of `TeacherName`.

    Raises:
        InputError: if they are no list, one is missing, is `output` or has
            nothing before or after its `@`.
    """
    if isinstance(names, str | pathlib.Path):
        raise InputError(
            f"`{argument}` must be a list of trained models. Received: "
            f"{names!r}."
        )
    found = [_read(argument, name) for name in names]
    for teacher in found:
        if find_model(teacher.model).resolve() == output.resolve():
            raise InputError(
                f"The teacher {teacher.model} is the folder of the student. "
                "Choose another `--output`."
            )
    return found


def _read(argument: str, name: pathlib.Path | str) -> TeacherName:
    model, mark, text = str(name).rpartition("@")
    if not mark or pathlib.Path(name).is_dir():
        return TeacherName(name)
    if not model or not text:
        raise InputError(
            f"`{argument}` must name a trained model, alone or as MODEL@TEXT "
            f"with the text that it reads. Received: {str(name)!r}."
        )
    return TeacherName(model, text)
