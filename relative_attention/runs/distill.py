"""Trains one model on what several translate: sequence-level distillation."""

import gc
import os
import pathlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import cast

from relative_attention.corpora.recipe_text import find_corpus
from relative_attention.corpora.recipe_text import find_file
from relative_attention.corpora.recipe_text import named_files
from relative_attention.data import ParallelCorpus
from relative_attention.errors import InputError
from relative_attention.files import lock_run
from relative_attention.runs.cluster import check_backend
from relative_attention.runs.cluster import choose_strategy
from relative_attention.runs.distilled_text import SOURCE
from relative_attention.runs.distilled_text import TARGET
from relative_attention.runs.distilled_text import VALIDATION_SOURCE
from relative_attention.runs.distilled_text import VALIDATION_TARGET
from relative_attention.runs.distilled_text import Distillation
from relative_attention.runs.distilled_text import distilled_paths
from relative_attention.runs.distilled_text import write_distilled_pairs
from relative_attention.runs.prepare import check_joining
from relative_attention.runs.prepare import check_language
from relative_attention.runs.prepare import check_texts
from relative_attention.runs.recipe import Recipe
from relative_attention.runs.recipe_sections import DataSection
from relative_attention.runs.report import Report
from relative_attention.runs.report import print_error
from relative_attention.runs.run import train
from relative_attention.runs.run_directory import claim_run_directory
from relative_attention.runs.run_directory import is_run
from relative_attention.runs.run_directory import recorded_files
from relative_attention.runs.run_directory import write_record
from relative_attention.runs.start_from import find_initial_weights
from relative_attention.runs.teachers import TeacherName
from relative_attention.runs.teachers import Teachers
from relative_attention.runs.teachers import load_teachers
from relative_attention.runs.teachers import read_teacher_names
from relative_attention.runs.translate_text import file_sha256
from relative_attention.saving.model_directory import find_vocabulary
from relative_attention.saving.model_directory import save_vocabularies


def distill(
    recipe: Recipe,
    teachers: Sequence[pathlib.Path | str],
    output: pathlib.Path | str,
    data_directory: pathlib.Path | str | None = None,
    overwrite: bool = False,
    num_beams: int | None = None,
    batch_tokens: int | None = None,
    report: Report | None = None,
    backward: Sequence[pathlib.Path | str] = (),
    separately: bool = False,
    closest_of: int | None = None,
) -> dict[str, Any]:
    """Trains the model of a recipe on its own text and on its teachers'.

    The teachers, together an `Ensemble` if there are several, translate the
    source of the recipe's training text by beam search; those of the other
    direction, if any, its target, likewise together. The student, which has
    the vocabulary of the first teacher, is then trained by `train` on the
    pairs of the recipe and on the same lines with their translations. Its
    validation and test text are the recipe's. Lines that are held out, where
    there is no validation text, are not translated.

    With `separately` each teacher translates all lines alone, so that the
    student learns from as many more pairs: with teachers of both directions,
    the data diversification of Nguyen et al. (2020).

    With `closest_of` the student learns not the most probable translation but
    the one that is closest to the target of the corpus by sentence BLEU:
    sequence-level interpolation. BLEU tokenizes as sacreBLEU's `13a`, but for
    pre-tokenized text. Where all candidates have the same score, as they may
    in scripts without blanks, the most probable one is taken. Translations of
    the other direction are always the most probable ones.

    A teacher may read the text in a third language, line by line:
    `MODEL@TEXT` among the teachers is a model from that language to the
    recipe's target, among those backward one to its source. Only teachers
    that read the same text translate together.

    An interrupted call is resumed by the same call. Once all is translated,
    `train` with `resume` resumes it, too, without the teachers.

    Args:
        recipe: A `Recipe`, the student's.
        teachers: A list of folders of trained models, or names of the zoo,
            or of `MODEL@TEXT`, the text found as those of the recipe are;
            with one vocabulary those who translate together.
        output: The path of the folder to fill, as of `train`.
        data_directory: The path of a folder in which to look for the texts;
            see `find_corpus`. Defaults to `None`.
        overwrite: A boolean to indicate whether to delete the run in `output`
            first, its translations too.
        num_beams: An integer, of all teachers' beam search. Defaults to
            `None`, as the first teacher has it, like the length penalty.
        batch_tokens: An integer, the most source positions, over all beams,
            translated at a time. Defaults to `None`, as the teachers have
            it.
        report: A function that is called with each line for the log.
            Defaults to printing to standard error.
        backward: A list like `teachers`, of models that translate the
            recipe's target, or another text, into its source. Their
            vocabulary may be another. Defaults to none.
        separately: A boolean to indicate whether each teacher translates
            alone. Defaults to `False`.
        closest_of: An integer from 1 to the beams of the search, how many
            translations of a line to choose from. Defaults to `None`, the best
            one is taken.

    Returns:
        A dict, what was written to `results.json`; its `distilled_from` says
        what the teachers were.

    Raises:
        InputError: if there is no teacher, one is missing or is `output`
            itself, vocabularies differ of those who translate together, a
            text of a teacher's own is missing, unusable or has another number
            of lines, `closest_of` is out of range, `output` holds
            translations of others, or as `train`; all before any work is
            done.

    Reference:
     - [Kim and Rush, 2016](https://arxiv.org/abs/1606.07947), sections 3.2
       and 3.3
     - [Nguyen et al., 2020](https://arxiv.org/abs/1911.01986), section 3
    """
    report = report or print_error
    output = pathlib.Path(output)
    names, backward_names = (
        read_teacher_names(argument, models, output)
        for argument, models in (("teachers", teachers), ("backward", backward))
    )
    _check_machine(recipe)
    # TensorFlow wants its devices before it does anything else.
    choose_strategy(recipe.training.devices)
    check_language(recipe)
    resume = is_run(output) and not overwrite
    known = recorded_files(output) if resume else {}
    texts = find_corpus(recipe.data, data_directory, known)
    check_texts(texts)
    others = _other_texts(
        [*names, *backward_names], recipe, texts, data_directory, known
    )
    loaded = load_teachers(
        names,
        backward_names,
        separately,
        num_beams=num_beams,
        batch_tokens=batch_tokens,
    )
    search = loaded[0].translator
    _check_closest_of(closest_of, search.num_beams)
    vocabularies = loaded[0].vocabularies()
    student = _student_recipe(recipe, loaded)
    find_initial_weights(student, output, resume, known)
    check_joining(student, *vocabularies)
    origin = Distillation(
        teachers=[name.origin(others) for name in names],
        backward=[name.origin(others) for name in backward_names],
        separately=separately,
        num_beams=search.num_beams,
        length_penalty=search.length_penalty,
        closest_of=closest_of,
        text_sha256={
            # `find_corpus` has refused a recipe without them.
            "source": file_sha256(cast(str, texts.source)),
            "target": file_sha256(cast(str, texts.target)),
        },
        held_out=(
            [texts.held_out, recipe.training.seed]
            if texts.validation_source is None
            else None
        ),
    )
    read = {**named_files(recipe.data, texts), **others}
    with lock_run(output, report=report):
        if not overwrite:
            origin.check_same(output)
        claim_run_directory(output, student, resume, overwrite, read)
        write_record(output, {**read, **distilled_paths(output)})
        # Before anything that is made of it.
        origin.save(output)
        # The one that is written last.
        last = "vocabulary" if student.vocabulary.joint else "target_vocabulary"
        if find_vocabulary(output, last) is None:
            save_vocabularies(*vocabularies, output)
        write_distilled_pairs(
            recipe, texts, others, loaded, output, origin, report
        )
    # The student needs the memory, and graphs lead back to their model.
    del loaded, search
    gc.collect()
    return train(student, output, data_directory, resume=True, report=report)


def _check_machine(recipe: Recipe) -> None:
    """Refuses several machines, and a backend that cannot train."""
    if os.environ.get("TF_CONFIG"):
        raise InputError(
            "One machine translates the text. Unset TF_CONFIG; when all is "
            "translated, end the command, and let all machines go on by "
            "`train --resume`."
        )
    check_backend(recipe)


def _check_closest_of(closest_of: int | None, num_beams: int) -> None:
    if closest_of is None:
        return
    is_int = isinstance(closest_of, int) and not isinstance(closest_of, bool)
    if not is_int or not 1 <= closest_of <= num_beams:
        raise InputError(
            "`closest_of` must be an int from 1 to the number of beams, "
            f"{num_beams}, which `num_beams` raises. Received: {closest_of!r}."
        )


def _other_texts(
    names: Sequence[TeacherName],
    recipe: Recipe,
    texts: DataSection,
    data_directory: pathlib.Path | str | None,
    known: Mapping[str, str],
) -> dict[str, str]:
    """Returns the texts that teachers name, and their paths, checked."""
    others = {
        name.text: known.get(name.text)
        or find_file(name.text, recipe.data, data_directory)
        for name in names
        if name.text is not None
    }
    for path in others.values():
        ParallelCorpus(path, cast(str, texts.target)).check()
    return others


def _student_recipe(recipe: Recipe, teachers: Sequence[Teachers]) -> Recipe:
    """Returns the recipe with the texts and the vocabulary of the teachers."""
    for some in teachers:
        if some.take_tokens() != recipe.data.tokenized:
            raise InputError(
                "`data.tokenized` must be as all teachers have it, who read "
                "its text and write what the student learns. One of them "
                f"has {str(some.take_tokens()).lower()}. Received: "
                f"{str(recipe.data.tokenized).lower()}."
            )
    source, target = teachers[0].vocabularies()
    values = {
        "data.source": SOURCE,
        "data.target": TARGET,
        "vocabulary.joint": str(source is target).lower(),
        "vocabulary.size": len(target),
        "vocabulary.model": "null",
        "vocabulary.source_model": "null",
        "vocabulary.target_model": "null",
    }
    if recipe.data.validation_source is None:
        values["data.validation_source"] = VALIDATION_SOURCE
        values["data.validation_target"] = VALIDATION_TARGET
    if recipe.training.start_from is not None:
        # Rows of the pieces that both have; if they have all, all rows.
        values["vocabulary.from_start"] = "false"
    student = recipe.override(f"{key}={value}" for key, value in values.items())
    student.model_config(len(target), None if source is target else len(source))
    return student
