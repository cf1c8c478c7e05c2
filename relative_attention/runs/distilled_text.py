"""The text that a student learns from, in the folder of its run.

distilled/origin.json        what it is made of: `Distillation`
distilled/held_out/          the recipe's text in two parts, if it has no
                             validation text
distilled/held_out-2/        likewise, the text that the second of those who
                             translate reads, if it is its own
distilled/translated-1       the translations, a file for all who translate
                             together, until they are joined with the recipe's
                             pairs; before all are there,
                             `translated-1.partial` and `translated-1.journal`
distilled/train.source       what the student learns from: the recipe's
distilled/train.target       pairs, then the same lines translated
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import cast

from relative_attention.corpora.recipe_text import hold_out
from relative_attention.data import ParallelCorpus
from relative_attention.data.lines import read_lines
from relative_attention.errors import InputError
from relative_attention.files import atomic_file
from relative_attention.files import read_json_object
from relative_attention.runs.recipe import Recipe
from relative_attention.runs.recipe_sections import DataSection
from relative_attention.runs.report import Report
from relative_attention.runs.teachers import Teachers
from relative_attention.runs.translate_text import ClosestTo
from relative_attention.runs.translate_text import translate_text

_DIRECTORY = "distilled"
_ORIGIN = "distilled/origin.json"
# The names of the texts in the student's recipe. The record of the run has
# their paths, wherever the folder is by then.
SOURCE = "distilled/train.source"
TARGET = "distilled/train.target"
VALIDATION_SOURCE = "distilled/held_out/validation.source"
VALIDATION_TARGET = "distilled/held_out/validation.target"

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


@dataclasses.dataclass(frozen=True)
class Distillation:
    """What the translations of a student's training text depend on.

    Attributes:
        teachers: For each its `model`, as it was named, and `weights_sha256`;
            if it reads a text of its own, `text` and `text_sha256`.
        backward: Likewise, of those of the other direction.
        separately: Whether each translates alone.
        num_beams: Of the beam search.
        length_penalty: Likewise.
        closest_of: Of how many translations the one closest to the target is
            taken, or `None` for the best.
        text_sha256: Of the recipe's two training texts.
        held_out: The number of lines held out and the seed, or `None` where
            there is a validation text.
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
        """Writes it to the folder of a run."""
        with atomic_file(output / _ORIGIN, "w") as file:
            json.dump(dataclasses.asdict(self), file, indent=1)

    def comparable(self) -> dict[str, Any]:
        """Returns what decides over the translations, without names."""
        return _comparable(dataclasses.asdict(self))

    def check_same(self, output: pathlib.Path) -> None:
        """Refuses a run that has translations by others, or of other text."""
        origin = _read_origin(output)
        if origin is None:
            # What a kill leaves of a file has a dot before its name.
            if any((output / _DIRECTORY).glob("[!.]*")):
                raise InputError(
                    f"{output / _ORIGIN} is missing or damaged, so that it is "
                    f"not known whose translations are beside it. {_WAY_OUT}"
                )
            return
        before = _comparable(origin)
        for name, value in self.comparable().items():
            if before.get(name) != value:
                raise InputError(
                    f"{output} holds translations with other {_WORDS[name]}: "
                    f"they would not be of one kind. {_WAY_OUT}"
                )


def _comparable(origin: Mapping[str, Any]) -> dict[str, Any]:
    """Replaces teachers by checksums: their names may change."""
    hashes = {
        name: [_hash_of(teacher) for teacher in origin[name]]
        for name in ("teachers", "backward")
    }
    return {**origin, **hashes}


def _hash_of(teacher: Mapping[str, str]) -> str:
    weights = teacher["weights_sha256"]
    return (
        f"{weights}@{teacher['text_sha256']}" if "text" in teacher else weights
    )


def _read_origin(output: pathlib.Path | str) -> dict[str, Any] | None:
    """Returns what `save` wrote, or `None` if it is not there, or damaged."""
    try:
        origin = read_json_object(pathlib.Path(output) / _ORIGIN)
        _comparable(origin)
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return origin


def distilled_from(
    recipe: Recipe, output: pathlib.Path | str
) -> dict[str, Any]:
    """Returns what `results.json` says of the teachers, `{}` without any."""
    origin = _read_origin(output)
    if recipe.data.source != SOURCE or origin is None:
        return {}
    kept = [name for name in _WORDS if name not in ("text_sha256", "held_out")]
    return {"distilled_from": {name: origin.get(name) for name in kept}}


def distilled_paths(output: pathlib.Path) -> dict[str, str]:
    """Returns the names of the texts in a student's recipe, and their paths."""
    names = (SOURCE, TARGET, VALIDATION_SOURCE, VALIDATION_TARGET)
    return {name: str(output / name) for name in names}


def write_distilled_pairs(
    recipe: Recipe,
    texts: DataSection,
    others: Mapping[str, str],
    teachers: Sequence[Teachers],
    output: pathlib.Path,
    origin: Distillation,
    report: Report,
) -> None:
    """Writes what a student learns from, unless it is there already.

    `texts` has the paths of the recipe's texts, `others` those of the texts
    that teachers name.
    """
    directory = output / _DIRECTORY
    held_out = directory / "held_out"
    corpus = _learnt_from(recipe, texts, cast(str, texts.source), held_out)
    closest_to = None
    if origin.closest_of is not None:
        tokenize = "none" if recipe.data.tokenized else "13a"
        closest_to = ClosestTo(corpus.target, origin.closest_of, tokenize)
    translations = [
        directory / f"translated-{number + 1}"
        for number in range(len(teachers))
    ]
    # The target is written last.
    if not (output / TARGET).is_file():
        sources: list[pathlib.Path | str] = [corpus.source]
        targets: list[pathlib.Path | str] = [corpus.target]
        for number, (some, path) in enumerate(zip(teachers, translations), 1):
            source = corpus.target if some.backward else corpus.source
            if some.text is not None:
                own = held_out.with_name(f"held_out-{number}")
                source = _learnt_from(
                    recipe, texts, others[some.text], own
                ).source
            translate_text(
                some.translator,
                source,
                path,
                origin.comparable(),
                report,
                None if some.backward else closest_to,
            )
            sources.append(path if some.backward else corpus.source)
            targets.append(corpus.target if some.backward else path)
        _join(sources, output / SOURCE)
        _join(targets, output / TARGET)
    for path in translations:
        path.unlink(missing_ok=True)


def _learnt_from(
    recipe: Recipe, texts: DataSection, source: str, held_out: pathlib.Path
) -> ParallelCorpus:
    """Returns a text and the recipe's target, but for lines to validate on.

    Which lines are held out depends on their number and the seed alone, so
    they are the same in all texts.
    """
    corpus = ParallelCorpus(source, cast(str, texts.target))
    if texts.validation_source is None:
        corpus, _ = hold_out(
            corpus, texts.held_out, recipe.training.seed, held_out
        )
    return corpus


def _join(texts: Sequence[pathlib.Path | str], path: pathlib.Path) -> None:
    """Writes the lines of several texts, one after the other."""
    with atomic_file(path, "w") as file:
        for text in texts:
            file.writelines(f"{line}\n" for line in read_lines(text))
