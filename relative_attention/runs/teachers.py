"""Trained models that translate a training text for a student."""

import dataclasses
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import cast

from relative_attention.data import TokenVocabulary
from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.decoding import Translator
from relative_attention.errors import InputError
from relative_attention.runs.distilled_text import file_sha256
from relative_attention.runs.teacher_names import TeacherName
from relative_attention.saving.model_directory import load_translator
from relative_attention.zoo import find_model

Names = Sequence[TeacherName]


@dataclasses.dataclass(frozen=True)
class Teachers:
    """One model, or an ensemble, and the text that it translates.

    Attributes:
        translator: A `Translator`.
        backward: A boolean, whether the recipe's source is what they write;
            else it is the target.
        text: A string, the name of the text that they read, if it is neither
            the source nor the target of the recipe.
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
    names: Names, backward: Names, separately: bool, **settings: int | None
) -> list[Teachers]:
    """Loads teachers, those first that translate from source to target.

    Args:
        names: A list of `TeacherName`, of those that write the student's
            target.
        backward: Likewise, of those that write its source; it may be empty.
        separately: A boolean to indicate whether each translates alone. If
            not, those of a direction that read one text translate together.
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
    loaded = [Teachers(_load(first, given), text=first[0].text)]
    search = {
        "num_beams": loaded[0].translator.num_beams,
        "length_penalty": loaded[0].translator.length_penalty,
        **given,
    }
    groups = [(False, group) for group in rest]
    groups += [(True, group) for group in _in_groups(backward, separately)]
    return loaded + [
        Teachers(_load(group, search), is_backward, group[0].text)
        for is_backward, group in groups
    ]


def origins_of(
    names: Iterable[TeacherName], texts: Mapping[str, str]
) -> list[dict[str, str]]:
    """Returns what `Distillation` says of teachers, a dict for each.

    Args:
        names: A list of `TeacherName`.
        texts: A dict of the texts they name to their paths.
    """
    return [_origin_of(name, texts) for name in names]


def _origin_of(name: TeacherName, texts: Mapping[str, str]) -> dict[str, str]:
    weights = find_model(name.model) / "model.safetensors"
    origin = {
        "model": str(name.model),
        "weights_sha256": file_sha256(weights),
    }
    if name.text is not None:
        origin["text"] = name.text
        origin["text_sha256"] = file_sha256(texts[name.text])
    return origin


def _in_groups(names: Names, separately: bool) -> list[list[TeacherName]]:
    """Returns those who translate together: unless alone, who read one text."""
    if separately:
        return [[name] for name in names]
    groups: dict[str | None, list[TeacherName]] = {}
    for name in names:
        groups.setdefault(name.text, []).append(name)
    return list(groups.values())


def _load(names: Names, settings: dict[str, Any]) -> Translator:
    try:
        return load_translator([name.model for name in names], **settings)
    except ValueError as error:
        raise InputError(str(error)) from error
