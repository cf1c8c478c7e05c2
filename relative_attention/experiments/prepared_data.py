"""The data of a recipe, ready to train on."""

import dataclasses
import itertools

from relative_attention.data import ParallelCorpus
from relative_attention.data import TokenBatches
from relative_attention.data import TokenCorpus
from relative_attention.data import Vocabulary
from relative_attention.experiments.hold_out import hold_out


@dataclasses.dataclass(frozen=True)
class PreparedData:
    """Vocabularies, batches and texts of a run.

    Attributes:
        source_vocabulary: `Vocabulary`.
        target_vocabulary: `Vocabulary`, the same object where it is joint.
        train_batches: `TokenBatches`.
        validation_batches: `TokenBatches`.
        validation: `ParallelCorpus`, the text.
        test: `ParallelCorpus` or `None`.
    """

    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    train_batches: TokenBatches
    validation_batches: TokenBatches
    validation: ParallelCorpus
    test: ParallelCorpus | None

    @property
    def is_joint(self):
        """Whether one vocabulary serves both languages."""
        return self.source_vocabulary is self.target_vocabulary


def prepare_data(recipe, files, directory, report):
    """Hold out what is to be held out, learn the vocabulary, encode.

    Args:
        recipe: `Recipe`.
        files: `DataSection` with paths that exist; see `find_corpus`.
        directory: path of the run. Vocabularies are written to it, ids to its
            folder `cache`; what is there already is used.
        report: called with lines for the log.

    Returns:
        `PreparedData`.

    Raises:
        InputError: if a file is unusable.
    """
    train, validation, test = _texts(files)
    if validation is None:
        train, validation = hold_out(
            train,
            files.held_out,
            recipe.training.seed,
            directory / "cache" / "held_out",
        )
    source_vocabulary, target_vocabulary = _vocabularies(
        recipe.vocabulary, train, directory, report
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
    for name, corpus in corpora.items():
        report(
            f"{name}: {len(corpus):,} pairs; left out "
            f"{corpus.num_empty:,} with an empty line, "
            f"{corpus.num_too_long:,} of over {files.max_length} tokens"
        )
    batches = {
        name: TokenBatches(
            corpus, recipe.training.batch_tokens, recipe.training.seed
        )
        for name, corpus in corpora.items()
    }
    return PreparedData(
        source_vocabulary,
        target_vocabulary,
        batches["train"],
        batches["validation"],
        validation,
        test,
    )


def check_texts(files):
    """Read every text once, to see that all are usable.

    Args:
        files: `DataSection` with paths that exist.

    Raises:
        InputError: if one is not; see `ParallelCorpus.check`.
    """
    for corpus in _texts(files):
        if corpus is not None:
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


def _vocabularies(section, corpus, directory, report):
    names = ["vocabulary"]
    if not section.joint:
        names = ["source_vocabulary", "target_vocabulary"]
    vocabularies = []
    for side, name in enumerate(names):
        path = directory / f"{name}.model"
        if path.is_file():
            vocabularies.append(Vocabulary.load(path))
            continue
        report(f"learning a vocabulary of {section.size:,} pieces")
        lines = itertools.chain.from_iterable(
            corpus if section.joint else ([pair[side]] for pair in corpus)
        )
        vocabulary = Vocabulary.train(lines, section.size)
        vocabulary.save(path)
        vocabularies.append(vocabulary)
    return vocabularies[0], vocabularies[-1]
