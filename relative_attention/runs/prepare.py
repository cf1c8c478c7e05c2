"""Finds and prepares what a run reads: texts, vocabularies, ids, batches."""

import dataclasses
import itertools
import pathlib
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from typing import cast

from relative_attention.corpora.recipe_text import find_corpus
from relative_attention.corpora.recipe_text import find_file
from relative_attention.corpora.recipe_text import hold_out
from relative_attention.corpora.recipe_text import line_numbers
from relative_attention.corpora.recipe_text import named_files
from relative_attention.data import FixedShapeBatches
from relative_attention.data import ParallelCorpus
from relative_attention.data import TokenBatches
from relative_attention.data import TokenCorpus
from relative_attention.data import TokenVocabulary
from relative_attention.data import Vocabulary
from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.errors import InputError
from relative_attention.runs.cluster import TRAIN_SHAPES
from relative_attention.runs.cluster import VALIDATION_SHAPES
from relative_attention.runs.recipe import Recipe
from relative_attention.runs.recipe_sections import DataSection
from relative_attention.runs.report import Report
from relative_attention.runs.run_directory import recorded_files
from relative_attention.runs.start_from import InitialWeights
from relative_attention.runs.start_from import find_initial_weights
from relative_attention.saving.model_directory import find_vocabulary
from relative_attention.saving.model_directory import save_vocabularies


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
    """Returns what a run reads, checked before any work is done.

    A run that is resumed finds its files where they were when it was started.
    With `overwrite` all texts are read again.
    """
    check_language(recipe)
    known = recorded_files(output) if resume else {}
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
    return RunInputs(texts, vocabularies, initial_weights, paths)


def check_language(recipe: Recipe) -> None:
    """Refuses a `data.target_language` that Moses' tokenizer lacks."""
    if recipe.data.target_language is not None:
        from relative_attention.evaluation import check_moses

        check_moses(recipe.data.target_language)


def named_vocabularies(
    recipe: Recipe,
    data_directory: pathlib.Path | str | None = None,
    known: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Finds the files that a recipe's `vocabulary` names."""
    section = recipe.vocabulary
    return {
        name: (known or {}).get(name)
        or find_file(name, recipe.data, data_directory)
        for name in (section.model, section.source_model, section.target_model)
        if name is not None
    }


def load_given(
    recipe: Recipe,
    paths: Mapping[str, str],
    output: pathlib.Path | str,
    resume: bool = False,
) -> tuple[AnyVocabulary, AnyVocabulary] | None:
    """Loads what `named_vocabularies` found."""
    if not paths:
        return None
    name = "vocabulary" if recipe.vocabulary.joint else "target_vocabulary"
    if resume and find_vocabulary(pathlib.Path(output), name) is not None:
        return None
    load = (
        TokenVocabulary.from_opennmt_tf
        if recipe.data.tokenized
        else Vocabulary.from_sentencepiece
    )
    vocabularies = [load(path) for path in paths.values()]
    if not recipe.vocabulary.joint and len(vocabularies) == 1:
        # The same file for both, as two vocabularies.
        vocabularies += [load(path) for path in paths.values()]
    return vocabularies[0], vocabularies[-1]


@dataclasses.dataclass(frozen=True)
class Batches:
    """The batches of a run.

    Attributes:
        train: `TokenBatches` to learn from.
        validation: `TokenBatches` to validate on.
    """

    train: TokenBatches
    validation: TokenBatches

    @property
    def padding(self) -> str | None:
        """A sentence on the shapes and their padding, where they are fixed."""
        train = self.train
        if not isinstance(train, FixedShapeBatches):
            return None
        shapes = ", ".join(f"{rows} x {size}" for rows, size in train.shapes)
        return (
            f"batches: {len(train.shapes)} shapes (rows x tokens: {shapes}); "
            f"{train.padding_share:.1%} of the positions are padding"
        )


@dataclasses.dataclass(frozen=True)
class PreparedData:
    """The vocabularies, ids and texts of a run.

    Attributes:
        source_vocabulary: A `Vocabulary`.
        target_vocabulary: A `Vocabulary`, the same object where it is joint.
        train_corpus: A `TokenCorpus`, the ids to learn from.
        validation_corpus: A `TokenCorpus`, the ids to validate on.
        validation: A `ParallelCorpus`, the text of `validation_corpus`.
        test: A `ParallelCorpus` that the finished model is scored on, or
            `None`.
        joining: A dict of the arguments of `TokenBatches` that say how the
            lines to learn from are joined; empty where they are not.
    """

    source_vocabulary: AnyVocabulary
    target_vocabulary: AnyVocabulary
    train_corpus: TokenCorpus
    validation_corpus: TokenCorpus
    validation: ParallelCorpus
    test: ParallelCorpus | None
    joining: dict[str, Any]

    def batches(
        self,
        train_tokens: int,
        validation_tokens: int,
        seed: int,
        start_token_id: int = 0,
        fixed_shapes: bool = False,
    ) -> Batches:
        """Divides the ids into batches of these numbers of tokens."""
        own = seed, start_token_id
        if not fixed_shapes:
            return Batches(
                TokenBatches(
                    self.train_corpus, train_tokens, *own, **self.joining
                ),
                TokenBatches(self.validation_corpus, validation_tokens, *own),
            )
        return Batches(
            FixedShapeBatches(
                self.train_corpus,
                train_tokens,
                *own,
                num_shapes=TRAIN_SHAPES,
                **self.joining,
            ),
            FixedShapeBatches(
                self.validation_corpus,
                validation_tokens,
                *own,
                num_shapes=VALIDATION_SHAPES,
            ),
        )

    @property
    def is_joint(self) -> bool:
        """Returns whether one vocabulary serves both languages."""
        return self.source_vocabulary is self.target_vocabulary


def prepare_data(
    recipe: Recipe,
    files: DataSection,
    directory: pathlib.Path,
    report: Report,
    initial_weights: InitialWeights | None = None,
    given: tuple[AnyVocabulary, AnyVocabulary] | None = None,
) -> PreparedData:
    """Holds lines out if need be, learns the vocabulary, and encodes.

    What `directory` holds of this already is used. Vocabularies that are
    `given`, or that of the model to start from, are not learned.
    """
    train, validation, test = _texts(files)
    numbers = {}
    if validation is None:
        how = (files.held_out, recipe.training.seed)
        parts = hold_out(train, *how, directory / "cache" / "held_out")
        train, validation = parts
        numbers = dict(zip(("train", "validation"), line_numbers(parts, *how)))
    source_vocabulary, target_vocabulary = _vocabularies(
        recipe, train, directory, report, initial_weights, given
    )
    check_joining(recipe, source_vocabulary, target_vocabulary)
    corpora = {
        name: TokenCorpus.prepare(
            corpus,
            source_vocabulary,
            target_vocabulary,
            files.max_length,
            directory / "cache" / name,
        )
        for name, corpus in (("train", train), ("validation", validation))
    }
    # A line is reported by its number in the user's file.
    for name, lines in numbers.items():
        corpora[name] = corpora[name].with_line_numbers(lines)
    for name, corpus in corpora.items():
        report(
            f"{name}: {len(corpus):,} pairs; left out "
            f"{corpus.num_empty:,} with an empty line, "
            f"{corpus.num_too_long:,} of over {files.max_length} tokens"
        )
    return PreparedData(
        source_vocabulary,
        target_vocabulary,
        corpora["train"],
        corpora["validation"],
        validation,
        test,
        joining(recipe),
    )


def joining(recipe: Recipe) -> dict[str, Any]:
    """Returns how `TokenBatches` are to join the lines of a recipe."""
    data = recipe.data
    if data.join is None or data.join == 1:
        return {}
    return {
        "join": data.join,
        "join_share": data.join_share,
        "max_length": data.max_length,
    }


def check_joining(recipe: Recipe, *vocabularies: AnyVocabulary) -> None:
    """Checks that the ids of lines can be joined, if a recipe asks for it."""
    if not joining(recipe):
        return
    for vocabulary in vocabularies:
        # With punctuation at the boundary, where spellings differ if at all.
        first, second, both = vocabulary.encode(["a.", ".a", "a. .a"])
        if first + second != both:
            raise InputError(
                "`data.join` must be null with this vocabulary "
                f"({type(vocabulary).__name__}): the ids of two lines, one "
                "after another, are not those of the joined line. Received: "
                f"{recipe.data.join}. Set data.join=null, or learn a new "
                "vocabulary (vocabulary.from_start=false)."
            )


def check_texts(
    files: DataSection, directory: pathlib.Path | str | None = None
) -> None:
    """Reads every text once, to see that all are usable.

    Texts whose ids the run in `directory` holds are not read again: millions
    of pairs take a while.
    """
    for name, corpus in zip(("train", "validation", "test"), _texts(files)):
        if corpus is None:
            continue
        if directory is not None and TokenCorpus.is_made_of(
            corpus, pathlib.Path(directory) / "cache" / name
        ):
            continue
        corpus.check()


def _texts(
    files: DataSection,
) -> tuple[ParallelCorpus, ParallelCorpus | None, ParallelCorpus | None]:
    """Returns the texts, or `None`, for training, validation and testing."""
    # `find_corpus` has refused a recipe without a text to learn from.
    source, target = cast(str, files.source), cast(str, files.target)
    return (
        ParallelCorpus(source, target),
        _text(files.validation_source, files.validation_target),
        _text(files.test_source, files.test_target),
    )


def _text(source: str | None, target: str | None) -> ParallelCorpus | None:
    if source is None or target is None:
        return None
    return ParallelCorpus(source, target)


def _vocabularies(
    recipe: Recipe,
    corpus: Iterable[tuple[str, str]],
    directory: pathlib.Path,
    report: Report,
    initial_weights: InitialWeights | None,
    given: tuple[AnyVocabulary, AnyVocabulary] | None,
) -> tuple[AnyVocabulary, AnyVocabulary]:
    """Returns source and target vocabulary, as files of the run."""
    section = recipe.vocabulary
    names = ["vocabulary"]
    if not section.joint:
        names = ["source_vocabulary", "target_vocabulary"]
    if find_vocabulary(directory, names[-1]) is None:
        if initial_weights is not None:
            initial_weights.copy_vocabularies(directory)
        # Checked before: with these, that of the model is not taken.
        if given is not None:
            save_vocabularies(*given, directory)
    vocabularies = []
    for side, name in enumerate(names):
        found = find_vocabulary(directory, name)
        if found is None:
            lines = itertools.chain.from_iterable(
                corpus if section.joint else ([pair[side]] for pair in corpus)
            )
            found = _learn(recipe, lines, report)
            suffix = ".tokens" if recipe.data.tokenized else ".model"
            found.save(directory / f"{name}{suffix}")
        vocabularies.append(found)
    return vocabularies[0], vocabularies[-1]


def _learn(
    recipe: Recipe, lines: Iterable[str], report: Report
) -> AnyVocabulary:
    """Learns a vocabulary of the recipe's kind and size from a text."""
    vocabulary: AnyVocabulary
    size = recipe.vocabulary.size
    if recipe.data.tokenized:
        kind = "tokens"
        report(f"choosing the {size:,} most frequent tokens")
        vocabulary = TokenVocabulary.train(lines, size)
    else:
        kind = "pieces"
        report(f"learning a vocabulary of {size:,} pieces")
        vocabulary = Vocabulary.train(lines, size, or_fewer=True)
    if len(vocabulary) < size:
        report(
            f"the text carries {len(vocabulary):,} {kind}, fewer than the "
            f"{size:,} of `vocabulary.size`: the vocabulary has these"
        )
    return vocabulary
