"""Trained models that translate a training text for a student."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any
from typing import cast

from relative_attention.data import TokenVocabulary
from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.decoding import Translator
from relative_attention.errors import InputError
from relative_attention.runs.distilled_text import file_sha256
from relative_attention.saving.model_directory import load_translator
from relative_attention.saving.zoo import find_model

Names = Sequence[pathlib.Path | str]


@dataclasses.dataclass(frozen=True)
class Teachers:
    """One model, or an ensemble, and the text that it translates.

    Attributes:
        translator: A `Translator`.
        backward: A boolean, whether the recipe's target is translated into
            its source.
    """

    translator: Translator
    backward: bool = False

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


def check_teachers(argument: str, names: Names, output: pathlib.Path) -> None:
    """Makes sure that teachers are there, and that none is the student.

    Args:
        argument: The name of the argument that names them.
        names: A list of folders of trained models, or names of the zoo.
        output: The path of the student's folder.

    Raises:
        InputError: if they are no list, one is missing, or is `output`.
    """
    if isinstance(names, str | pathlib.Path):
        raise InputError(
            f"`{argument}` must be a list of trained models. Received: "
            f"{names!r}."
        )
    for name in names:
        if find_model(name).resolve() == output.resolve():
            raise InputError(
                f"The teacher {name} is the folder of the student. Choose "
                "another `--output`."
            )


def load_teachers(
    names: Names, backward: Names, separately: bool, **settings: int | None
) -> list[Teachers]:
    """Loads teachers, those first that translate from source to target.

    Args:
        names: A list of folders of trained models, or names of the zoo, of
            the student's direction.
        backward: Likewise, of the other direction; it may be empty.
        separately: A boolean to indicate whether each translates alone. If
            not, all of a direction translate together.
        **settings: Arguments of `Translator`, or `None` for those of the
            first teacher.

    Returns:
        A list of `Teachers`, all of which search like the first.

    Raises:
        InputError: if there are none of the student's direction, or they
            cannot be loaded, or not together.
    """
    if not names:
        raise InputError(
            "`teachers` must be a list of at least one trained model. "
            f"Received: {names!r}."
        )
    first, *rest = _in_groups(names, separately)
    given = {name: n for name, n in settings.items() if n is not None}
    loaded = [Teachers(_load(first, given))]
    search = {
        "num_beams": loaded[0].translator.num_beams,
        "length_penalty": loaded[0].translator.length_penalty,
        **given,
    }
    loaded += [Teachers(_load(group, search)) for group in rest]
    return loaded + [
        Teachers(_load(group, search), backward=True)
        for group in _in_groups(backward, separately)
    ]


def weights_of(names: Names) -> list[dict[str, str]]:
    """Returns for each teacher `model`, its name, and `weights_sha256`.

    Args:
        names: A list of folders of trained models, or names of the zoo.
    """
    return [
        {
            "model": str(name),
            "weights_sha256": file_sha256(
                find_model(name) / "model.safetensors"
            ),
        }
        for name in names
    ]


def _in_groups(
    names: Names, separately: bool
) -> list[list[pathlib.Path | str]]:
    if separately:
        return [[name] for name in names]
    return [list(names)] if names else []


def _load(names: Names, settings: dict[str, Any]) -> Translator:
    try:
        return load_translator(names, **settings)
    except ValueError as error:
        raise InputError(str(error)) from error
