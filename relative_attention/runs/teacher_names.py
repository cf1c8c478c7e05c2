"""How the teachers of a student are named: `MODEL`, or `MODEL@TEXT`."""

import dataclasses
import pathlib
from collections.abc import Sequence

from relative_attention.errors import InputError
from relative_attention.saving.zoo import find_model


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
    separately: bool,
) -> list[TeacherName]:
    """Reads the names of teachers, and makes sure that they are there.

    Args:
        argument: The name of the argument that has them.
        names: A list of folders of trained models, or names of the zoo, each
            alone or with `@` and the name of a text. A folder whose name has
            an `@` goes before that.
        output: The path of the student's folder.
        separately: A boolean to indicate whether each translates alone.

    Returns:
        A list of `TeacherName`.

    Raises:
        InputError: if they are no list, one is missing, or is `output`, or
            one reads a text of its own and all translate together.
    """
    if isinstance(names, str | pathlib.Path):
        raise InputError(
            f"`{argument}` must be a list of trained models. Received: "
            f"{names!r}."
        )
    found = [_read(name) for name in names]
    for teacher in found:
        if find_model(teacher.model).resolve() == output.resolve():
            raise InputError(
                f"The teacher {teacher.model} is the folder of the student. "
                "Choose another `--output`."
            )
        if teacher.text is not None and not separately:
            raise InputError(
                f"The teacher {teacher.model} reads a text of its own, "
                f"{teacher.text}, so that it cannot translate together with "
                "others. Pass `--separately`."
            )
    return found


def _read(name: pathlib.Path | str) -> TeacherName:
    if pathlib.Path(name).is_dir():
        return TeacherName(name)
    model, mark, text = str(name).rpartition("@")
    return TeacherName(model, text) if mark else TeacherName(name)
