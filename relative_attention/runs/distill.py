"""Trains a model on the translations of others: sequence distillation."""

import dataclasses
import gc
import itertools
import os
import pathlib
from collections.abc import Sequence
from typing import Any
from typing import cast

from relative_attention.data import ParallelCorpus
from relative_attention.data import SubwordVocabulary
from relative_attention.data import TokenVocabulary
from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.data.vocabulary_kinds import is_same_vocabulary
from relative_attention.decoding import Translator
from relative_attention.errors import InputError
from relative_attention.evaluation.scores import fitting_tokenizer
from relative_attention.files import file_sha256
from relative_attention.files import lock_directory
from relative_attention.recipes.recipe import Recipe
from relative_attention.runs.cluster import JAX_ADDRESSES
from relative_attention.runs.cluster import choose_cluster
from relative_attention.runs.corpus_defaults import with_values_for_corpus
from relative_attention.runs.distilled_text import SOURCE
from relative_attention.runs.distilled_text import TARGET
from relative_attention.runs.distilled_text import VALIDATION_SOURCE
from relative_attention.runs.distilled_text import VALIDATION_TARGET
from relative_attention.runs.distilled_text import Teacher
from relative_attention.runs.distilled_text import check_same_origin
from relative_attention.runs.distilled_text import save_origin
from relative_attention.runs.distilled_text import write_distilled_pairs
from relative_attention.runs.prepare import check_joining
from relative_attention.runs.prepare import check_signs
from relative_attention.runs.prepare import find_inputs
from relative_attention.runs.prepare import find_vocabularies
from relative_attention.runs.report import Report
from relative_attention.runs.report import print_error
from relative_attention.runs.run import train
from relative_attention.runs.run_directory import claim_run_directory
from relative_attention.runs.run_directory import has_trained
from relative_attention.runs.run_directory import is_run
from relative_attention.runs.run_directory import recorded_files
from relative_attention.runs.run_directory import write_record
from relative_attention.runs.start_from import with_values_of_start
from relative_attention.runs.texts import find_file
from relative_attention.runs.texts import named_files
from relative_attention.saving.model_directory import load_translator
from relative_attention.saving.model_directory import load_vocabularies
from relative_attention.saving.model_directory import save_vocabularies
from relative_attention.zoo import find_model
from relative_attention.zoo import recipe_languages


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
    """Trains a recipe's model on its corpus and on translations by teachers.

    The teachers translate the source of the recipe's training text by beam
    search, as an `Ensemble` if there are several. Teachers of the other
    direction, if any, translate its target. The student is then trained by
    `train` on the pairs of the recipe and on the same lines with their
    translations. It has the vocabulary of the first teacher, and the recipe's
    validation and test text. If lines are held out for validation, they are
    not translated.

    With `separately` each teacher translates all lines alone, and the student
    learns from all translations. With teachers of both directions, this is the
    data diversification of Nguyen et al. (2020).

    With `closest_of` the student does not learn the most probable translation
    but the one closest to the target of the corpus by sentence BLEU
    (sequence-level interpolation). BLEU uses sacreBLEU's tokenizer `13a`, for
    text without blanks `zh` or `char`, and none for pre-tokenized text. If all
    candidates have the same score, the most probable one is used.
    Translations of the other direction are always the most probable ones.

    A teacher may read the text in a third language, line by line:
    `MODEL@TEXT` in `teachers` translates from that language to the recipe's
    target, in `backward` to its source. Only teachers that read the same text
    translate as an ensemble.

    Repeat the same call to resume an interrupted one. Once all lines are
    translated, `train` with `resume` resumes it, too, without the teachers.

    Args:
        recipe: A `Recipe`, the student's.
        teachers: A list of folders of trained models, bundled models, or
            `MODEL@TEXT`, whose text is searched for like the recipe's. The
            teachers of an ensemble must have the same vocabulary.
        output: The path of the folder to fill, as for `train`.
        data_directory: The path of a folder with the texts; see
            `find_corpus`. Defaults to `None`.
        overwrite: A boolean to indicate whether to delete the run in `output`
            first, with its translations.
        num_beams: An integer, for all teachers. Defaults to `None`, the first
            teacher's, like the length penalty.
        batch_tokens: An integer, the most source tokens, over all beams,
            translated at a time. Defaults to `None`, 8,192.
        report: A function to call with each line for the log. Defaults to
            printing to standard error.
        backward: A list like `teachers`, of models that translate the
            recipe's target, or another text, into its source. Their
            vocabulary may differ. Defaults to none.
        separately: A boolean to indicate whether each teacher translates
            alone. Defaults to `False`.
        closest_of: An integer from 1 to the number of beams, how many
            translations of a line to choose from. Defaults to `None`, the most
            probable one is used.

    Returns:
        A dict, the content of `results.json`; `distilled_from` names the
        teachers.

    Raises:
        InputError: before any work, if there is no teacher, one is missing or
            is `output` itself, the vocabularies of an ensemble differ, the
            text of a teacher is missing, unusable or has another number of
            lines, `closest_of` is out of range, `output` holds translations by
            other teachers, or for the reasons of `train`.

    Reference:
     - [Kim and Rush, 2016](https://arxiv.org/abs/1606.07947), sections 3.2
       and 3.3
     - [Nguyen et al., 2020](https://arxiv.org/abs/1911.01986), section 3
    """
    report = report or print_error
    output = pathlib.Path(output)
    names = [
        *_read_names("teachers", teachers, output),
        *_read_names("backward", backward, output),
    ]
    # Everything that needs no teacher, as loading them takes long.
    plan = _plan(recipe, names, output, data_directory, overwrite, report)
    loaded = _load_teachers(
        names, separately, num_beams=num_beams, batch_tokens=batch_tokens
    )
    _check_closest_of(closest_of, loaded[0][0])
    # Of the first teacher, whose settings hold for all.
    origin = _origin(plan, names, loaded[0][0], separately, closest_of)
    _write_text(plan, loaded, origin, output, overwrite, report)
    # The student needs the memory, and graphs refer to their models.
    del loaded
    gc.collect()
    # The folder is a run already, so `train` finds its texts there.
    return train(
        plan.student, output, data_directory, resume=True, report=report
    )


@dataclasses.dataclass(frozen=True)
class _Plan:
    """What is known before any teacher is loaded."""

    # The recipe of the student.
    student: Recipe
    # The vocabularies of the first teacher, which the student gets.
    vocabularies: tuple[AnyVocabulary, AnyVocabulary]
    # The training text of the recipe.
    corpus: ParallelCorpus
    # How many lines are held out for validation, and the seed that chooses
    # them; `None` if the recipe has a validation text.
    held_out: list[int] | None
    # The paths of the teachers' own texts, and of all texts, by name.
    others: dict[str, str]
    read: dict[str, str]
    # Whether the run was begun.
    resume: bool


def _plan(
    recipe: Recipe,
    names: Sequence[Teacher],
    output: pathlib.Path,
    data_directory: pathlib.Path | str | None,
    overwrite: bool,
    report: Report,
) -> _Plan:
    """Checks everything that needs no teacher."""
    for name in ("TF_CONFIG", JAX_ADDRESSES):
        if os.environ.get(name):
            raise InputError(
                f"One machine translates the text. Unset {name}; when all "
                "lines are translated, stop the command, and start all "
                "machines with `train --resume`."
            )
    # TensorFlow's devices must be set before anything else.
    choose_cluster(recipe)
    vocabularies = [load_vocabularies(find_model(n.model)) for n in names]
    student = _student_recipe(recipe, vocabularies)
    resume = is_run(output) and not overwrite
    # As for `train`, but the student's own texts are not made yet.
    inputs = find_inputs(
        dataclasses.replace(student, data=recipe.data),
        output,
        data_directory,
        resume,
        overwrite,
    )
    texts = inputs.files
    run = output if resume and has_trained(output) else None
    student = with_values_of_start(student, inputs.initial_weights, run, report)
    student = with_values_for_corpus(student, inputs, run, report)
    check_joining(student, vocabularies[0])
    check_signs(student, vocabularies[0])
    # `find_inputs` has refused a recipe without them.
    corpus = ParallelCorpus(cast(str, texts.source), cast(str, texts.target))
    known = recorded_files(output, data_directory) if resume else {}
    others = {
        name.text: known.get(name.text)
        or find_file(name.text, recipe.data, data_directory)
        for name in names
        if name.text is not None
    }
    # A line of each text translates the same line of the corpus.
    for path in others.values():
        ParallelCorpus(path, corpus.target).check()
    held_out = None
    # Held-out lines must not be learned in the teachers' words.
    if texts.validation_source is None:
        held_out = [texts.held_out, recipe.training.seed]
    read = {**named_files(recipe.data, texts), **others}
    return _Plan(
        student, vocabularies[0], corpus, held_out, others, read, resume
    )


def _check_closest_of(closest_of: int | None, search: Translator) -> None:
    if closest_of is not None and (
        type(closest_of) is not int or not 1 <= closest_of <= search.num_beams
    ):
        raise InputError(
            "`closest_of` must be an int from 1 to the number of beams, "
            f"{search.num_beams}, which `num_beams` raises. Received: "
            f"{closest_of!r}."
        )


def _origin(
    plan: _Plan,
    names: Sequence[Teacher],
    search: Translator,
    separately: bool,
    closest_of: int | None,
) -> dict[str, Any]:
    """Returns the inputs of the translations, for `origin.json`."""
    return {
        "teachers": [n.origin(plan.others) for n in names if not n.backward],
        "backward": [n.origin(plan.others) for n in names if n.backward],
        "separately": separately,
        "num_beams": search.num_beams,
        "length_penalty": search.length_penalty,
        "closest_of": closest_of,
        "text_sha256": {
            "source": file_sha256(plan.corpus.source),
            "target": file_sha256(plan.corpus.target),
        },
        "held_out": plan.held_out,
    }


def _write_text(
    plan: _Plan,
    teachers: Sequence[tuple[Translator, Teacher]],
    origin: dict[str, Any],
    output: pathlib.Path,
    overwrite: bool,
    report: Report,
) -> None:
    """Fills the folder of the run with all that `train` needs to resume it."""
    with lock_directory(output, report=report):
        if not overwrite:
            check_same_origin(origin, output)
        claim_run_directory(
            output, plan.student, plan.resume, overwrite, plan.read
        )
        made = (SOURCE, TARGET, VALIDATION_SOURCE, VALIDATION_TARGET)
        # `train` looks for the student's texts in the record.
        write_record(
            output, plan.read | {name: str(output / name) for name in made}
        )
        # Before anything that depends on it.
        save_origin(origin, output)
        # A run that was begun has them already, and may have trained.
        if find_vocabularies(plan.student, output) is None:
            save_vocabularies(*plan.vocabularies, output)
        tokenize = "none"
        if not plan.student.data.tokenized:
            # Enough to see whether the text has blanks.
            some = [t for _, t in itertools.islice(plan.corpus, 1000)]
            tokenize = fitting_tokenizer(
                some, plan.student.data.target_language
            )
        write_distilled_pairs(
            plan.corpus,
            plan.others,
            teachers,
            output,
            origin,
            tokenize,
            report,
        )


def _read_names(
    argument: str, names: Sequence[pathlib.Path | str], output: pathlib.Path
) -> list[Teacher]:
    """Reads the names of teachers, and checks that they exist."""
    # A string would be taken for a list of letters.
    is_list = not isinstance(names, str | pathlib.Path)
    if not is_list or (argument == "teachers" and not names):
        raise InputError(
            f"`{argument}` must be a list of at least one trained model. "
            f"Received: {names!r}."
        )
    found = []
    for name in map(str, names):
        model, mark, text = name.rpartition("@")
        # A folder may have an `@` in its name.
        if not mark or pathlib.Path(name).is_dir():
            model, text = name, ""
        elif not model or not text:
            raise InputError(
                f"`{argument}` must name a trained model, alone or as "
                "MODEL@TEXT with the text that it reads. Received: "
                f"{name!r}."
            )
        if find_model(model).resolve() == output.resolve():
            raise InputError(
                f"The teacher {model} is the folder of the student. Choose "
                "another `--output`."
            )
        found.append(Teacher(model, text or None, argument == "backward"))
    return found


def _load_teachers(
    teachers: Sequence[Teacher], separately: bool, **settings: int | None
) -> list[tuple[Translator, Teacher]]:
    """Loads teachers, first those that translate from source to target.

    Teachers of one direction that read the same text are an ensemble, unless
    `separately`; each ensemble comes with the first of its teachers. All search
    like the first, except for `settings` that are not `None`.
    """
    # The first teacher decides for all, as its settings are those of
    # `origin.json`.
    search: dict[str, Any] = {
        name: n for name, n in settings.items() if n is not None
    }
    ensembles: dict[Any, list[Teacher]] = {}
    for number, teacher in enumerate(teachers):
        # Teachers with the same key translate together.
        key = number if separately else (teacher.backward, teacher.text)
        ensembles.setdefault(key, []).append(teacher)
    loaded = []
    for some in ensembles.values():
        try:
            translator = load_translator([t.model for t in some], **search)
        # A wrong `num_beams` is known only once a teacher is loaded.
        except ValueError as error:
            raise InputError(str(error)) from error
        search = {
            "num_beams": translator.num_beams,
            "length_penalty": translator.length_penalty,
            **search,
        }
        loaded.append((translator, some[0]))
    return loaded


def _student_recipe(
    recipe: Recipe, vocabularies: Sequence[tuple[AnyVocabulary, AnyVocabulary]]
) -> Recipe:
    """Returns the recipe with the first vocabulary of the teachers' pairs."""
    for _, target in vocabularies:
        is_tokens = isinstance(target, TokenVocabulary) and not target.tokenizer
        if is_tokens != recipe.data.tokenized:
            raise InputError(
                "`data.tokenized` must be that of all teachers, which read "
                "this text and write what the student learns. One of them "
                f"has {str(is_tokens).lower()}. Received: "
                f"{str(recipe.data.tokenized).lower()}."
            )
    source, target = vocabularies[0]
    languages = recipe_languages(dataclasses.asdict(recipe.data))
    values: dict[str, Any] = {
        # What the names of the files will not say.
        "data.source_language": languages[0],
        "decoding.target_language": recipe.decoding.target_language
        or languages[1],
        "data.source": SOURCE,
        "data.target": TARGET,
        # The vocabularies of the teacher, which the run gets: no file is named.
        "vocabulary.joint": source is target,
        "vocabulary.size": len(target),
        "vocabulary.model": None,
        "vocabulary.source_model": None,
        "vocabulary.target_model": None,
    }
    if recipe.data.validation_source is None:
        values["data.validation_source"] = VALIDATION_SOURCE
        values["data.validation_target"] = VALIDATION_TARGET
    if recipe.training.start_from is not None:
        values["vocabulary.from_start"] = keeps_vocabulary(
            recipe.training.start_from, vocabularies[0]
        )
    student = recipe.replace(values)
    # Only for its errors, before hours of translation.
    student.model_config(len(target), None if source is target else len(source))
    return student


def keeps_vocabulary(
    start_from: str, vocabularies: tuple[AnyVocabulary, AnyVocabulary]
) -> bool:
    """Returns whether a model to start from has the student's vocabulary.

    Otherwise the rows of pieces in both are kept.
    """
    old = load_vocabularies(find_model(start_from))
    if all(map(is_same_vocabulary, old, vocabularies)):
        return True
    if any(isinstance(one, SubwordVocabulary) for one in (*old, *vocabularies)):
        raise InputError(
            "The student gets the vocabulary of the first teacher, and that "
            f"of {start_from} (`training.start_from`) is another: of "
            "tensor2tensor's subwords no rows could be kept. Start from a "
            "model with the teacher's vocabulary, or leave out "
            "`training.start_from`."
        )
    return False
