"""Finds and prepares the inputs of a run: texts, vocabularies, ids, batches.

find_inputs     paths, given vocabularies, the model to start from; all
                errors are found before any work
prepare_data    held-out lines, vocabularies, and ids, all in the folder of
                the run, where a resumed run finds them
"""

import contextlib
import dataclasses
import itertools
import pathlib
from collections.abc import Iterable
from typing import Any
from typing import cast

import keras

from relative_attention.corpora.variants import describe_counts
from relative_attention.corpora.variants import variants_of
from relative_attention.corpora.variants import write_variants
from relative_attention.data import FixedShapeBatches
from relative_attention.data import ParallelCorpus
from relative_attention.data import TokenBatches
from relative_attention.data import TokenCorpus
from relative_attention.data import TokenVocabulary
from relative_attention.data import Vocabulary
from relative_attention.data.lines import read_lines
from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.data.vocabulary_kinds import is_same_vocabulary
from relative_attention.errors import InputError
from relative_attention.evaluation.scores import moses_tokenizer
from relative_attention.files import delete_directory
from relative_attention.files import read_json_object
from relative_attention.files import write_json
from relative_attention.ops.long_attention import is_long
from relative_attention.recipes.recipe import Recipe
from relative_attention.recipes.sections import DataSection
from relative_attention.runs.report import Report
from relative_attention.runs.run_directory import has_trained
from relative_attention.runs.run_directory import recorded_files
from relative_attention.runs.start_from import InitialWeights
from relative_attention.runs.start_from import find_initial_weights
from relative_attention.runs.texts import find_corpus
from relative_attention.runs.texts import find_file
from relative_attention.runs.texts import hold_out
from relative_attention.runs.texts import named_files
from relative_attention.runs.texts import texts_sha256
from relative_attention.saving.model_directory import find_vocabulary
from relative_attention.saving.model_directory import save_vocabularies

# A model learns almost nothing from fewer.
_FEW_PAIRS = 200

# Numbers of batch shapes, for each of which JAX compiles a step: of the
# training text, and of the short validation text. With 12 for the first, an
# epoch has 3% fewer updates, but compiling takes half as long again.
_TRAIN_SHAPES = 8
_VALIDATION_SHAPES = 4


@dataclasses.dataclass(frozen=True)
class RunInputs:
    """The inputs of a run.

    Attributes:
        files: A `DataSection` with paths that exist.
        vocabularies: A pair of vocabularies, given or of the model to start
            from; `None` if they are learned from the text.
        initial_weights: The model to start from, or `None`.
        paths: A dict of the recipe's names of files to their paths, recorded
            for resuming.
    """

    files: DataSection
    vocabularies: tuple[AnyVocabulary, AnyVocabulary] | None
    initial_weights: InitialWeights | None
    paths: dict[str, str]


def find_inputs(
    recipe: Recipe,
    output: pathlib.Path,
    data_directory: pathlib.Path | str | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> RunInputs:
    """Returns the inputs of a run, checked before any work.

    A resumed run finds its files where they were when it was started. With
    `overwrite` all texts are read again.
    """
    # Only for its error: a language that it does not know is refused here.
    moses_tokenizer(recipe.data.target_language)
    known = recorded_files(output, data_directory) if resume else {}
    files = find_corpus(recipe.data, data_directory, known)
    texts = _texts(files)
    for name, corpus in texts.items():
        # Texts whose ids are in the run are not read again, as millions of
        # pairs take a while.
        cache = output / "cache" / name
        if overwrite or not TokenCorpus.is_made_of(corpus, cache):
            num_lines = corpus.check()
            if num_lines == 1 and name == "train" and "validation" not in texts:
                raise InputError(
                    f"{corpus.source} has one line, and one must be held out "
                    "to validate. Do its lines end with CR alone? Write LF."
                )
    initial_weights = find_initial_weights(recipe, output, resume, known)
    section = recipe.vocabulary
    own = {
        name: known.get(name) or find_file(name, recipe.data, data_directory)
        for name in (section.model, section.source_model, section.target_model)
        if name is not None
    }
    # `None`: to be learned.
    vocabularies = None
    # Before a run has trained, its vocabularies may be of another recipe.
    has_own = (
        resume and has_trained(output) and find_vocabularies(recipe, output)
    )
    # A run that has trained keeps its vocabulary, whatever the file is now.
    if own and not has_own:
        vocabularies = _load_own(recipe, list(own.values()))
    # Later ones replace earlier ones: what was found now counts.
    paths = {**known, **named_files(recipe.data, files), **own}
    if initial_weights is not None:
        name = cast(str, recipe.training.start_from)
        paths[name] = str(initial_weights.directory)
        # Rows of embeddings keep their meaning only with the same ids.
        if initial_weights.keeps_vocabularies:
            vocabularies = initial_weights.vocabularies
    # A vocabulary that is still to be learned is checked then.
    check_joining(recipe, vocabularies or ())
    check_signs(recipe, vocabularies or ())
    return RunInputs(files, vocabularies, initial_weights, paths)


def check_joining(
    recipe: Recipe, vocabularies: Iterable[AnyVocabulary]
) -> None:
    """Checks that the ids of lines can be joined, if a recipe asks for it."""
    if recipe.data.join in (None, 1):
        return
    for vocabulary in vocabularies:
        # With punctuation at the boundary, where a difference is most likely.
        first, second, both = vocabulary.encode(["a.", ".a", "a. .a"])
        if first + second != both:
            raise InputError(
                "`data.join` must be null with this vocabulary "
                f"({type(vocabulary).__name__}): the ids of two lines, one "
                "after another, are not those of the joined line. Received: "
                f"{recipe.data.join}. Set data.join=null, or learn a new "
                "vocabulary (vocabulary.from_start=false)."
            )


def check_signs(recipe: Recipe, vocabularies: Iterable[AnyVocabulary]) -> None:
    """Checks that variants, which have signs, can be encoded."""
    if not recipe.data.variants:
        return
    for vocabulary in vocabularies:
        if not isinstance(vocabulary, Vocabulary) or not vocabulary.sign_ids:
            raise InputError(
                "`data.variants` needs a SentencePiece vocabulary with bytes, "
                "in which signs stand for what must not be translated. "
                f"Received: {type(vocabulary).__name__} and "
                f"{recipe.data.variants}. Add data.variants=0, or learn a new "
                "vocabulary (vocabulary.from_start=false)."
            )


def _load_own(
    recipe: Recipe, paths: list[str]
) -> tuple[AnyVocabulary, AnyVocabulary]:
    load = (
        TokenVocabulary.from_opennmt_tf
        if recipe.data.tokenized
        else Vocabulary.from_sentencepiece
    )
    source = load(paths[0])
    # One file for both sides may still give two vocabularies.
    return source, source if recipe.vocabulary.joint else load(paths[-1])


def _texts(files: DataSection) -> dict[str, ParallelCorpus]:
    """Returns the existing texts by their part of the data."""
    sides = {
        "train": (files.source, files.target),
        "validation": (files.validation_source, files.validation_target),
        "test": (files.test_source, files.test_target),
    }
    return {
        name: ParallelCorpus(source, target)
        for name, (source, target) in sides.items()
        if source is not None and target is not None
    }


@dataclasses.dataclass(frozen=True)
class PreparedData:
    """The vocabularies, ids and texts of a run.

    Attributes:
        source_vocabulary: A `Vocabulary`.
        target_vocabulary: A `Vocabulary`, the same object if joint.
        train_corpus: A `TokenCorpus`, the ids to train on.
        validation_corpus: A `TokenCorpus`, the ids to validate on.
        validation: A `ParallelCorpus`, the text of `validation_corpus`.
        test: A `ParallelCorpus` that the finished model is scored on, or
            `None`.
        joining: A dict of the arguments of `TokenBatches` for joining training
            lines.
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
    ) -> tuple[TokenBatches, TokenBatches]:
        """Returns the training and the validation batches."""
        kind: Any = FixedShapeBatches if fixed_shapes else TokenBatches
        batches = []
        for corpus, tokens, num_shapes, joining in (
            (self.train_corpus, train_tokens, _TRAIN_SHAPES, self.joining),
            (self.validation_corpus, validation_tokens, _VALIDATION_SHAPES, {}),
        ):
            shapes = {"num_shapes": num_shapes} if fixed_shapes else {}
            batches.append(
                kind(corpus, tokens, seed, start_token_id, **shapes, **joining)
            )
        return batches[0], batches[1]

    @property
    def is_joint(self) -> bool:
        """Returns whether one vocabulary serves both languages."""
        return self.source_vocabulary is self.target_vocabulary


def prepare_data(
    recipe: Recipe, inputs: RunInputs, directory: pathlib.Path, report: Report
) -> PreparedData:
    """Holds out lines if needed, learns the vocabulary, and encodes.

    Results that are already in `directory` are used.
    """
    files, texts = inputs.files, _texts(inputs.files)
    numbers = {}
    if "validation" not in texts:
        how = (files.held_out, recipe.training.seed)
        held_out = hold_out(
            texts["train"], *how, directory / "cache" / "held_out"
        )
        texts["train"] = held_out.train
        texts["validation"] = held_out.validation
        numbers = dict(zip(("train", "validation"), held_out.line_numbers))
        if held_out.num_left_out:
            report(
                f"train: {held_out.num_left_out:,} pairs are left out, as they "
                "share a sentence with lines held out to validate"
            )
    vocabularies = _vocabularies(
        recipe, texts["train"], directory, report, inputs.vocabularies
    )
    check_joining(recipe, vocabularies)
    if files.variants:
        # Lines are then those of the text with variants.
        numbers.pop("train", None)
        texts["train"] = _with_variants(
            texts["train"], recipe, directory / "cache" / "variants", report
        )
    corpora = {}
    for name in ("train", "validation"):
        corpus = TokenCorpus.prepare(
            texts[name],
            *vocabularies,
            files.max_length,
            directory / "cache" / name,
            has_signs=bool(files.variants) and name == "train",
        )
        if name in numbers:
            # Lines are reported by their numbers in the user's file.
            corpus = corpus.with_line_numbers(numbers[name])
        corpora[name] = corpus
        report(
            f"{name}: {len(corpus):,} pairs; left out "
            f"{corpus.num_empty:,} with an empty line, "
            f"{corpus.num_too_long:,} of over {files.max_length} tokens"
        )
    longest = files.max_length
    implementation = recipe.model.get("implementation", "auto")
    # On other backends, layers know the length of a batch.
    is_unknown = keras.backend.backend() == "tensorflow"
    if (
        is_unknown
        and implementation != "recompute"
        and is_long(longest, longest)
    ):
        report(
            f"warning: with `data.max_length` {longest:,}, attention scores "
            "of all pairs of tokens need much memory. Set "
            "`model.implementation` to `recompute`, whose memory grows with "
            "the length only."
        )
    num_pairs = len(corpora["train"])
    if num_pairs < _FEW_PAIRS:
        report(
            f"warning: {num_pairs:,} pairs are too few to learn to translate "
            "from, which takes tens of thousands: is `data.source` the text "
            "that you meant?"
        )
    return PreparedData(
        *vocabularies,
        corpora["train"],
        corpora["validation"],
        texts["validation"],
        texts.get("test"),
        {
            "join": files.join,
            "join_share": files.join_share,
            "max_length": files.max_length,
        },
    )


def learn_before(
    recipe: Recipe, inputs: RunInputs, folder: pathlib.Path, report: Report
) -> RunInputs:
    """Returns inputs with vocabularies, which are learned if none are given.

    To learn a vocabulary may be impossible, so this is called before a run is
    deleted to make room for another. `folder` is for temporary texts.
    """
    if inputs.vocabularies is not None:
        return inputs
    texts = _texts(inputs.files)
    corpus = texts["train"]
    if "validation" not in texts:
        how = (inputs.files.held_out, recipe.training.seed)
        # What is held out must not be learned from either.
        corpus = hold_out(corpus, *how, folder / "held_out").train
    vocabularies = _vocabularies(recipe, corpus, folder, report, None)
    return dataclasses.replace(inputs, vocabularies=vocabularies)


def _with_variants(
    corpus: ParallelCorpus,
    recipe: Recipe,
    directory: pathlib.Path,
    report: Report,
) -> ParallelCorpus:
    """Returns a corpus with variants, and writes it unless it exists."""
    # Written once, as a resumed run must have the same lines.
    written = variants_of(corpus, directory)
    origin, path = texts_sha256(corpus), directory.with_suffix(".json")
    with contextlib.suppress(OSError, ValueError):
        if directory.is_dir() and read_json_object(path) == origin:
            return written
    delete_directory(directory)
    counts = write_variants(
        corpus, directory, recipe.data.variants, recipe.training.seed
    )
    write_json(path, origin)
    report(f"variants of lines: {describe_counts(counts)}")
    return written


def _vocabularies(
    recipe: Recipe,
    corpus: ParallelCorpus,
    directory: pathlib.Path,
    report: Report,
    given: tuple[AnyVocabulary, AnyVocabulary] | None,
) -> tuple[AnyVocabulary, AnyVocabulary]:
    """Returns source and target vocabulary, as files of the run."""
    found = find_vocabularies(recipe, directory)
    # A resumed run must have the same ids. Before it has trained, a file that
    # was given may have changed.
    if found is not None and (
        given is None
        or has_trained(directory)
        or all(map(is_same_vocabulary, found, given))
    ):
        return found
    if given is None and recipe.vocabulary.joint:
        joint = _learn(recipe, itertools.chain.from_iterable(corpus), report)
        given = joint, joint
    elif given is None:
        source, target = (
            _learn(recipe, read_lines(path), report)
            for path in (corpus.source, corpus.target)
        )
        given = source, target
    save_vocabularies(*given, directory)
    return given


def find_vocabularies(
    recipe: Recipe, directory: pathlib.Path
) -> tuple[AnyVocabulary, AnyVocabulary] | None:
    """Returns the vocabularies of a run, `None` unless it has all of them."""
    if recipe.vocabulary.joint:
        source = target = find_vocabulary(directory, "vocabulary")
    else:
        source = find_vocabulary(directory, "source_vocabulary")
        target = find_vocabulary(directory, "target_vocabulary")
    # One vocabulary alone is not used: a new one might not fit it.
    return None if source is None or target is None else (source, target)


def _learn(
    recipe: Recipe, lines: Iterable[str], report: Report
) -> AnyVocabulary:
    """Learns a vocabulary of the recipe's kind and size from a text."""
    vocabulary: AnyVocabulary
    # `auto` was replaced by a number.
    size = int(recipe.vocabulary.size)
    if recipe.data.tokenized:
        kind = "tokens"
        report(f"choosing the {size:,} most frequent tokens")
        vocabulary = TokenVocabulary.train(lines, size)
    else:
        kind = "pieces"
        report(f"learning a vocabulary of {size:,} pieces")
        vocabulary = Vocabulary.train(
            lines,
            size,
            or_fewer=True,
            required_chars=recipe.vocabulary.required_chars,
        )
    if len(vocabulary) < size:
        report(
            f"the text holds only {len(vocabulary):,} {kind}, fewer than the "
            f"{size:,} of `vocabulary.size`: the vocabulary has these"
        )
    return vocabulary
