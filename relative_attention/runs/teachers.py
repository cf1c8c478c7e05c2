"""The trained models that translate a text for a student."""

import dataclasses
import pathlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import cast

from relative_attention.data import TokenVocabulary
from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.decoding import Translator
from relative_attention.errors import InputError
from relative_attention.runs.translate_text import file_sha256
from relative_attention.saving.model_directory import load_translator
from relative_attention.zoo import find_model


@dataclasses.dataclass(frozen=True)
class TeacherName:
    """A trained model, and what it reads: `MODEL`, or `MODEL@TEXT`.

    Attributes:
        model: The folder of a trained model, or a name of the zoo.
        text: The name of a text that is the recipe's in another language, line
            by line; `None` for the recipe's own.
    """

    model: pathlib.Path | str
    text: str | None = None

    def origin(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Returns what `Distillation` says of it; `texts` are paths by name."""
        weights = find_model(self.model) / "model.safetensors"
        origin = {
            "model": str(self.model),
            "weights_sha256": file_sha256(weights),
        }
        if self.text is not None:
            origin["text"] = self.text
            origin["text_sha256"] = file_sha256(texts[self.text])
        return origin


def read_teacher_names(
    argument: str,
    names: Sequence[pathlib.Path | str],
    output: pathlib.Path,
) -> list[TeacherName]:
    """Reads the names of teachers, and makes sure that they are there."""
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
    # A folder may have an `@` in its name.
    if not mark or pathlib.Path(name).is_dir():
        return TeacherName(name)
    if not model or not text:
        raise InputError(
            f"`{argument}` must name a trained model, alone or as MODEL@TEXT "
            f"with the text that it reads. Received: {str(name)!r}."
        )
    return TeacherName(model, text)


@dataclasses.dataclass(frozen=True)
class Teachers:
    """One model, or an ensemble, and the text that it translates.

    Attributes:
        translator: A `Translator`.
        backward: Whether they write the recipe's source, not its target.
        text: The name of the text that they read, if it is neither the source
            nor the target of the recipe.
    """

    translator: Translator
    backward: bool = False
    text: str | None = None

    def vocabularies(self) -> tuple[AnyVocabulary, AnyVocabulary]:
        """Returns source and target vocabulary, one object if it is joint."""
        # They came from a folder, and are of the kinds that those have.
        return (
            cast(AnyVocabulary, self.translator.source_vocabulary),
            cast(AnyVocabulary, self.translator.vocabulary),
        )

    def take_tokens(self) -> bool:
        """Returns whether they read and write tokens, not plain text."""
        _, target = self.vocabularies()
        return isinstance(target, TokenVocabulary) and not target.tokenizer


def load_teachers(
    names: Sequence[TeacherName],
    backward: Sequence[TeacherName],
    separately: bool,
    **settings: int | None,
) -> list[Teachers]:
    """Loads teachers, those first that translate from source to target.

    Teachers of one direction that read the same text translate together,
    unless `separately`. All search like the first, but for `settings` that are
    not `None`.
    """
    if not names:
        raise InputError(
            "`teachers` must be a list of at least one trained model. "
            f"Received: {names!r}."
        )
    search: dict[str, Any] = {
        name: n for name, n in settings.items() if n is not None
    }
    loaded: list[Teachers] = []
    for is_backward, some in ((False, names), (True, backward)):
        groups: dict[Any, list[TeacherName]] = {}
        for number, name in enumerate(some):
            groups.setdefault(number if separately else name.text, []).append(
                name
            )
        for group in groups.values():
            translator = _load(group, search)
            search = {
                "num_beams": translator.num_beams,
                "length_penalty": translator.length_penalty,
                **search,
            }
            loaded.append(Teachers(translator, is_backward, group[0].text))
    return loaded


def _load(
    names: Sequence[TeacherName], settings: Mapping[str, Any]
) -> Translator:
    try:
        return load_translator([name.model for name in names], **settings)
    except ValueError as error:
        raise InputError(str(error)) from error
