"""Finds all that a run reads, and checks it before any work is done."""

import dataclasses
import pathlib

from relative_attention.corpora.recipe_text import find_corpus
from relative_attention.corpora.recipe_text import named_files
from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.runs.given_vocabulary import load_given
from relative_attention.runs.given_vocabulary import named_vocabularies
from relative_attention.runs.initial_weights import InitialWeights
from relative_attention.runs.initial_weights import find_initial_weights
from relative_attention.runs.prepared_data import check_joining
from relative_attention.runs.prepared_data import check_texts
from relative_attention.runs.recipe import Recipe
from relative_attention.runs.recipe_sections import DataSection
from relative_attention.runs.run_files import files_of_ids
from relative_attention.runs.run_files import recorded_files


@dataclasses.dataclass(frozen=True)
class RunInputs:
    """The texts, vocabularies and weights that a run begins with.

    Attributes:
        texts: A `DataSection` with paths that exist.
        vocabularies: A pair of one's own vocabularies, or `None`.
        initial_weights: The model to start from, or `None`.
        paths: A dict of the names that the recipe has for what is read, and
            the paths; noted for resuming.
    """

    texts: DataSection
    vocabularies: tuple[AnyVocabulary, AnyVocabulary] | None
    initial_weights: InitialWeights | None
    paths: dict[str, str]


def find_inputs(
    recipe: Recipe,
    output: pathlib.Path | str,
    data_directory: pathlib.Path | str | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> RunInputs:
    """Returns what a run reads.

    Args:
        recipe: A `Recipe`.
        output: The path of the run.
        data_directory: The path of a folder in which to look for the texts,
            or `None`; see `find_corpus`.
        resume: A boolean to indicate whether the run in `output` goes on. Its
            files are found where they were when it was started.
        overwrite: A boolean to indicate whether what `output` holds is
            deleted, so that all texts are read again.

    Raises:
        InputError: if a file is missing or unusable, the tokeniser of
            `data.target_language` is, or a vocabulary does not allow the
            joined lines asked for.
    """
    check_language(recipe)
    known: dict[str, str] = {}
    if resume:
        known = recorded_files(output) or files_of_ids(
            output, named_files(recipe.data)
        )
    texts = find_corpus(recipe.data, data_directory, known)
    check_texts(texts, None if overwrite else output)
    initial_weights = find_initial_weights(recipe, output, resume, known)
    own = named_vocabularies(recipe, data_directory, known)
    paths = {**known, **named_files(recipe.data, texts), **own}
    if initial_weights is not None and recipe.training.start_from is not None:
        directory = str(initial_weights.directory)
        paths[recipe.training.start_from] = directory
    vocabularies = load_given(recipe, own, output, resume)
    if initial_weights is not None and initial_weights.keeps_vocabularies:
        check_joining(recipe, *initial_weights.vocabularies)
    if vocabularies is not None:
        check_joining(recipe, *vocabularies)
    return RunInputs(
        texts,
        vocabularies,
        initial_weights,
        paths,
    )


def check_language(recipe: Recipe) -> None:
    """Refuses a `data.target_language` that Moses' tokeniser has not.

    Args:
        recipe: A `Recipe`.

    Raises:
        InputError: as `check_moses`.
    """
    if recipe.data.target_language is not None:
        from relative_attention.evaluation import check_moses

        check_moses(recipe.data.target_language)
