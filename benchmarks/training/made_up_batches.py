"""Batches of ids without meaning, in sentences as long as those of text."""

import dataclasses

import numpy as np

import relative_attention as ra

# The longest sentence, in words. Mean and deviation of the logarithm of a
# source's number of words, and of that of the ratio of a target to it.
_LONGEST = 250
_LENGTHS = (3.03, 0.62)
_LENGTH_RATIOS = (-0.03, 0.18)
# Words become about so many pieces of a vocabulary of 32,768.
_PIECES_OF_A_WORD = 1.2
# Ids of padding, of the end of a sentence and of what is unknown come first.
_FIRST_ID = 3


@dataclasses.dataclass(frozen=True)
class ShapedBatch:
    """A batch, for all those of an epoch that have its shape.

    Attributes:
        data: A pair of inputs and labels, as a `Transformer` is trained on.
        num_batches: An integer, how many batches of an epoch have this shape.
        sentence_lengths: An integer array `(B, 2)`, the tokens of each source
            and target, ends of sentences included; 0 where a row is padding.
    """

    data: tuple[dict[str, np.ndarray], np.ndarray]
    num_batches: int
    sentence_lengths: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of either side."""
        rows, length = self.data[1].shape
        return rows, length

    @property
    def num_tokens(self) -> int:
        """Tokens of both sides, without padding."""
        return int(self.sentence_lengths.sum())


def make_batches(
    batch_tokens: int,
    vocabulary_size: int,
    max_length: int,
    num_shapes: int,
    num_pairs: int,
) -> list[ShapedBatch]:
    """Returns a batch of each shape, shortest first.

    Batches are cut as a run on JAX cuts them, by `FixedShapeBatches`.

    Args:
        batch_tokens: An integer, the padded tokens of a batch on each side.
        vocabulary_size: An integer.
        max_length: An integer; pairs of which a side has more tokens are left
            out.
        num_shapes: An integer, how many shapes there are at most.
        num_pairs: An integer, how many pairs there are before that.

    Raises:
        InputError: If the vocabulary is too small, or no pair is left.
    """
    if vocabulary_size <= _FIRST_ID:
        raise ra.InputError(
            f"The vocabulary must have more than {_FIRST_ID} ids. Received: "
            f"{vocabulary_size}."
        )
    corpus = _make_corpus(vocabulary_size, max_length, num_pairs)
    if not len(corpus):
        raise ra.InputError(
            f"None of {num_pairs:,} made-up pairs has at most {max_length} "
            "tokens. Allow longer ones, or more pairs."
        )
    batches = ra.FixedShapeBatches(corpus, batch_tokens, num_shapes=num_shapes)
    found: dict[tuple[int, int], list[np.ndarray]] = {}
    for indices in batches.indices():
        shape = batches.batch(indices)[1].shape
        found.setdefault((shape[0], shape[1]), []).append(indices)
    return [
        _shaped_batch(batches, indices)
        for _, indices in sorted(found.items(), key=lambda item: item[0][1])
    ]


def _make_corpus(
    vocabulary_size: int, max_length: int, num_pairs: int
) -> "ra.TokenCorpus":
    rng = np.random.default_rng(0)
    source = rng.lognormal(*_LENGTHS, num_pairs)
    target = source * rng.lognormal(*_LENGTH_RATIOS, num_pairs)
    lengths = np.clip([source, target], 1, _LONGEST).astype(int)
    lengths = np.ceil(_PIECES_OF_A_WORD * lengths).astype(int)
    # Batches add the end of each sentence.
    lengths = lengths[:, (lengths < max_length).all(axis=0)]
    offsets = np.pad(np.cumsum(lengths, axis=1), [(0, 0), (1, 0)])
    source_ids, target_ids = (
        rng.integers(_FIRST_ID, vocabulary_size, ends[-1], dtype=np.int32)
        for ends in offsets
    )
    return ra.TokenCorpus(
        source_ids=source_ids,
        source_offsets=offsets[0],
        target_ids=target_ids,
        target_offsets=offsets[1],
        line_numbers=1 + np.arange(lengths.shape[1]),
        num_empty=0,
        num_too_long=num_pairs - lengths.shape[1],
    )


def _shaped_batch(
    batches: "ra.FixedShapeBatches", same_shape: list[np.ndarray]
) -> ShapedBatch:
    """Returns the first of batches of one shape, which has the most rows."""
    # The last may have rows of padding.
    data = inputs, labels = batches.batch(same_shape[0])
    lengths = [inputs["source_token_ids"], labels]
    return ShapedBatch(
        data,
        len(same_shape),
        np.stack([(ids > 0).sum(axis=1) for ids in lengths], axis=1),
    )
