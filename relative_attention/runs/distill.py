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
from relative_attention.runs import distilled_text
from relative_attention.runs.closest_translations import check_closest_of
from relative_attention.runs.devices import choose_strategy
from relative_attention.runs.distilled_pairs import write_distilled_pairs
from relative_attention.runs.distilled_text import Distillation
from relative_attention.runs.distilled_text import file_sha256
from relative_attention.runs.initial_weights import find_initial_weights
from relative_attention.runs.one_device import check_backend
from relative_attention.runs.prepared_data import check_joining
from relative_attention.runs.prepared_data import check_texts
from relative_attention.runs.recipe import Recipe
from relative_attention.runs.recipe_sections import DataSection
from relative_attention.runs.report import Report
from relative_attention.runs.report import print_error
from relative_attention.runs.run_directory import claim_run_directory
from relative_attention.runs.run_files import is_run
from relative_attention.runs.run_files import recorded_files
from relative_attention.runs.run_files import write_record
from relative_attention.runs.run_inputs import check_language
from relative_attention.runs.teacher_names import TeacherName
from relative_attention.runs.teacher_names import read_teacher_names
from relative_attention.runs.teachers import Teachers
from relative_attention.runs.teachers import load_teachers
from relative_attention.runs.teachers import origins_of
from relative_attention.runs.train import train
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
    pairs of the recipe and on those of the same lines with their
    translations. What it is validated and tested on stays as the recipe has
    it; lines that are held out for want of a validation text are not
    translated.

    With `separately` each teacher translates all lines alone, so that the
    student learns from as many more pairs: with teachers of both directions,
    the data diversification of Nguyen et al. (2020).

    With `closest_of` the student learns not what is most probable of what the
    teachers find, but what is closest to the target of the corpus by sentence
    BLEU: sequence-level interpolation. Words are told apart as by sacreBLEU's
    `13a`, or are the tokens of text that is tokenised; where all candidates
    score alike, as in scripts without blanks they may, the most probable is
    taken. Translations of the other direction are the most probable ones as
    ever.

    Where the text is there in a third language, line by line, a teacher may
    read that: `MODEL@TEXT` among the teachers is a model from that language
    to the recipe's target, among those backward one to its source. It
    translates together with those alone that read the same text.

    Both can be interrupted at any time; the same call goes on. Once all is
    translated, `train` with `resume` does too, without the teachers.

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
    goes_on = is_run(output) and not overwrite
    known = recorded_files(output) if goes_on else {}
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
    check_closest_of(closest_of, loaded[0].translator.num_beams)
    vocabularies = loaded[0].vocabularies()
    student = _student_recipe(recipe, loaded)
    find_initial_weights(student, output, goes_on, known)
    check_joining(student, *vocabularies)
    origin = Distillation(
        teachers=origins_of(names, others),
        backward=origins_of(backward_names, others),
        separately=separately,
        num_beams=loaded[0].translator.num_beams,
        length_penalty=loaded[0].translator.length_penalty,
        closest_of=closest_of,
        **_text_origin(recipe, texts),
    )
    theirs = {**named_files(recipe.data, texts), **others}
    with lock_run(output, report=report):
        if not overwrite:
            origin.check_same(output)
        claim_run_directory(output, student, goes_on, overwrite, theirs)
        write_record(output, {**theirs, **distilled_text.paths(output)})
        # Before anything that is made of it.
        origin.save(output)
        if find_vocabulary(output, _last_vocabulary(student)) is None:
            save_vocabularies(*vocabularies, output)
        write_distilled_pairs(
            recipe, texts, others, loaded, output, origin, report
        )
    # The student needs the memory, and graphs lead back to their model.
    del loaded
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
    """Returns the recipe with the texts and the vocabulary of the teachers.

    Raises:
        InputError: if no model of the recipe can have that vocabulary.
    """
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
        "data.source": distilled_text.SOURCE,
        "data.target": distilled_text.TARGET,
        "vocabulary.joint": str(source is target).lower(),
        "vocabulary.size": len(target),
        "vocabulary.model": "null",
        "vocabulary.source_model": "null",
        "vocabulary.target_model": "null",
    }
    if recipe.data.validation_source is None:
        values["data.validation_source"] = distilled_text.VALIDATION_SOURCE
        values["data.validation_target"] = distilled_text.VALIDATION_TARGET
    if recipe.training.start_from is not None:
        # Rows of the pieces that both have; if they have all, all rows.
        values["vocabulary.from_start"] = "false"
    student = recipe.override(f"{key}={value}" for key, value in values.items())
    student.model_config(len(target), None if source is target else len(source))
    return student


def _last_vocabulary(student: Recipe) -> str:
    """Returns the name of the vocabulary that is written last."""
    return "vocabulary" if student.vocabulary.joint else "target_vocabulary"


def _text_origin(recipe: Recipe, texts: DataSection) -> dict[str, Any]:
    """Returns what `Distillation` says of the text that is translated."""
    held_out = None
    if texts.validation_source is None:
        held_out = [texts.held_out, recipe.training.seed]
    # `find_corpus` has refused a recipe without them.
    return {
        "text_sha256": {
            "source": file_sha256(cast(str, texts.source)),
            "target": file_sha256(cast(str, texts.target)),
        },
        "held_out": held_out,
    }
