"""Writes what a student learns from: pairs of the corpus, and translated."""

import pathlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import cast

from relative_attention.corpora.recipe_text import hold_out
from relative_attention.data import ParallelCorpus
from relative_attention.data.lines import read_lines
from relative_attention.files import atomic_file
from relative_attention.runs import distilled_text
from relative_attention.runs.closest_translations import ClosestTo
from relative_attention.runs.distilled_text import Distillation
from relative_attention.runs.recipe import Recipe
from relative_attention.runs.recipe_sections import DataSection
from relative_attention.runs.report import Report
from relative_attention.runs.teachers import Teachers
from relative_attention.runs.translate_text import translate_text


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

    Args:
        recipe: A `Recipe`, the student's.
        texts: Its `DataSection`, with the paths of what was found.
        others: A dict of the texts that teachers name to their paths.
        teachers: A list of `Teachers`.
        output: The path of the run.
        origin: A `Distillation`.
        report: A function that is called with each line for the log.

    Raises:
        InputError: as `translate_text`.
    """
    directory = output / distilled_text.DIRECTORY
    held_out = directory / "held_out"
    corpus = _learnt_from(recipe, texts, cast(str, texts.source), held_out)
    sources: list[pathlib.Path | str] = [corpus.source]
    targets: list[pathlib.Path | str] = [corpus.target]
    translations = [
        directory / f"{distilled_text.TRANSLATED}-{number}"
        for number in range(1, len(teachers) + 1)
    ]
    closest_to = None
    if origin.closest_of is not None:
        tokenize = "none" if recipe.data.tokenized else "13a"
        closest_to = ClosestTo(corpus.target, origin.closest_of, tokenize)
    # The target is written last.
    if not (output / distilled_text.TARGET).is_file():
        for number, (some, path) in enumerate(zip(teachers, translations), 1):
            if some.text is not None:
                translated = _learnt_from(
                    recipe,
                    texts,
                    others[some.text],
                    held_out.with_name(f"held_out-{number}"),
                ).source
            else:
                translated = corpus.target if some.backward else corpus.source
            translate_text(
                some.translator,
                translated,
                path,
                origin.comparable(),
                report,
                None if some.backward else closest_to,
            )
            sources.append(path if some.backward else corpus.source)
            targets.append(corpus.target if some.backward else path)
        _join(sources, output / distilled_text.SOURCE)
        _join(targets, output / distilled_text.TARGET)
    for path in translations:
        path.unlink(missing_ok=True)


def _learnt_from(
    recipe: Recipe,
    texts: DataSection,
    source: str,
    held_out: pathlib.Path,
) -> ParallelCorpus:
    """Returns a text and the recipe's target, but for lines to validate on.

    Which lines are held out depends on their number and the seed alone: they
    are the same of all texts.
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
