"""The data of a recipe, ready to train on."""

import dataclasses
import itertools
import pathlib

from relative_attention.corpora.hold_out import hold_out
from relative_attention.corpora.hold_out import line_numbers
from relative_attention.data import ParallelCorpus
from relative_attention.data import TokenBatches
from relative_attention.data import TokenCorpus
from relative_attention.data import TokenVocabulary
from relative_attention.data import Vocabulary
from relative_attention.saving.vocabulary_files import find_vocabulary
from relative_attention.saving.vocabulary_files import save_vocabularies


@dataclasses.dataclass(frozen=True)
class PreparedData:
    """Vocabularies, batches and texts of a run.

    Attributes:
        source_vocabulary: `Vocabulary`.
        target_vocabulary: `Vocabulary`, the same object where it is joint.
        train_corpus: `TokenCorpus`.
        validation_corpus: `TokenCorpus`.
        validation: `ParallelCorpus`, the text.
        test: `ParallelCorpus` or `None`.
        train_batches: `TokenBatches`; see `batched`.
        validation_batches: `TokenBatches`.
    """

    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    train_corpus: TokenCorpus
    validation_corpus: TokenCorpus
    validation: ParallelCorpus
    test: ParallelCorpus | None
    train_batches: TokenBatches | None = None
    validation_batches: TokenBatches | None = None

    def batched(self, train_tokens, validation_tokens, seed, start_token_id=0):
        """The same data, with batches of these numbers of tokens.

        Args:
            train_tokens, validation_tokens: int. See `TokenBatches`.
            seed: int. Of the order of the training batches.
            start_token_id: int. What the decoder's inputs start with.
        """
        return dataclasses.replace(
            self,
            train_batches=TokenBatches(
                self.train_corpus, train_tokens, seed, start_token_id
            ),
            validation_batches=TokenBatches(
                self.validation_corpus, validation_tokens, seed, start_token_id
            ),
        )

    @property
    def is_joint(self):
        """Whether one vocabulary serves both languages."""
        return self.source_vocabulary is self.target_vocabulary


def prepare_data(recipe, files, directory, report, start=None, given=None):
    """Hold out what is to be held out, learn the vocabulary, encode.

    Args:
        recipe: `Recipe`.
        files: `DataSection` with paths that exist; see `find_corpus`.
        directory: path of the run. Vocabularies are written to it, ids to its
            folder `cache`; what is there already is used.
        report: called with lines for the log.
        start: `Start`, the model to start from. Defaults to `None`.
        given: pair of vocabularies for source and target, the same object
            where it is joint. Defaults to `None`: they are learnt.

    Returns:
        `PreparedData`.

    Raises:
        InputError: if a file is unusable.
    """
    train, validation, test = _texts(files)
    numbers = {}
    if validation is None:
        how = (files.held_out, recipe.training.seed)
        parts = hold_out(train, *how, directory / "cache" / "held_out")
        train, validation = parts
        numbers = dict(zip(("train", "validation"), line_numbers(parts, *how)))
    source_vocabulary, target_vocabulary = _vocabularies(
        recipe, train, directory, report, start, given
    )
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
    )


def check_texts(files, directory=None):
    """Read every text once, to see that all are usable.

    Args:
        files: `DataSection` with paths that exist.
        directory: path of the run. Texts of which it holds the ids already
            are not read again: of millions of pairs that takes a while.

    Raises:
        InputError: if one is not; see `ParallelCorpus.check`.
    """
    for name, corpus in zip(("train", "validation", "test"), _texts(files)):
        if corpus is None:
            continue
        if directory is not None and TokenCorpus.is_made_of(
            corpus, pathlib.Path(directory) / "cache" / name
        ):
            continue
        corpus.check()


def _texts(files):
    """`ParallelCorpus` or `None` for training, validation and testing."""
    pairs = (
        (files.source, files.target),
        (files.validation_source, files.validation_target),
        (files.test_source, files.test_target),
    )
    return [
        ParallelCorpus(source, target) if source else None
        for source, target in pairs
    ]


def _vocabularies(recipe, corpus, directory, report, start, given):
    section = recipe.vocabulary
    names = ["vocabulary"]
    if not section.joint:
        names = ["source_vocabulary", "target_vocabulary"]
    if find_vocabulary(directory, names[-1]) is None:
        if start is not None:
            start.copy_vocabularies(directory)
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


def _learn(recipe, lines, report):
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
