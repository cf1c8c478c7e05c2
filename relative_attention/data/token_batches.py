"""Cuts a corpus into batches of similar length by a budget of tokens."""

import dataclasses
import functools
from collections.abc import Callable
from collections.abc import Iterator
from typing import TYPE_CHECKING
from typing import TypeAlias

import numpy as np

from relative_attention.argument_checks import checked_int
from relative_attention.argument_checks import checked_number
from relative_attention.data.token_corpus import LengthOrder
from relative_attention.data.token_corpus import TokenCorpus
from relative_attention.data.token_corpus import order_by_length
from relative_attention.models.config import END_ID

if TYPE_CHECKING:
    import tensorflow as tf

# Inputs of a `Transformer`, and labels.
Batch: TypeAlias = tuple[dict[str, np.ndarray], np.ndarray]

# How many differences between source and target length share a bucket: enough
# to mix pairs, and few enough to need little padding.
_BUCKET_WIDTH = 2


class TokenBatches:
    """Cuts a corpus into batches by a budget of tokens.

    Pairs are sorted by their longer side. This order is cut so that the number
    of rows of a batch times its longest side is at most `batch_tokens`. The
    cuts only depend on lengths, so every epoch has the same number of batches.
    Which pairs of a length share a batch, and the order of the batches, is a
    function of `(seed, epoch)`. So training can resume at any step with the
    same batches.

    Pairs are shuffled within buckets. A bucket has pairs with the same longer
    side and two neighboring differences between source and target length, so
    that neither side of a batch is padded much.

    With `join`, some rows of a training batch are two or more pairs, one
    after another with a single end of sentence, so that a model learns longer
    text. The pairs of a row change in every epoch. Each pair occurs once per
    epoch, alone or joined. Evaluation never joins pairs.

    `fit` and `evaluate` of a `Transformer` accept them on every backend:
    `model.fit(batches, validation_data=others, epochs=10)`. Elsewhere use
    `train_dataset` and `evaluation_dataset`.

    Args:
        corpus: `TokenCorpus`. The pairs to cut into batches.
        batch_tokens: int. Largest number of tokens of a batch on its longer
            side, with padding. A longer pair is a batch by itself.
        seed: int. Seed of the shuffling. Defaults to `0`.
        start_token_id: int. The id that the decoder's inputs start with.
            Defaults to `0`.
        join: int. The most pairs in a row. Defaults to `None`: 1.
        join_share: float. The share of rows that are joined; each has from 2
            to `join` pairs, with equal probability. Defaults to `0.3`.
        max_length: int. The most tokens on either side of a joined row,
            including the end of sentence; longer ones are not joined. Defaults
            to `None`: `batch_tokens`, which is never exceeded.

    Raises:
        ValueError: if `join`, or with `join` above 1 `join_share`, is out of
            its range.

    Example:
    >>> text = ra.write_spoken_numbers("numbers", train_pairs=500)["train"]
    >>> lines = (line for pair in text for line in pair)
    >>> vocabulary = ra.Vocabulary.train(lines, 400)
    >>> corpus = ra.TokenCorpus.prepare(
    ...     text, vocabulary, vocabulary, 100, "ids"
    ... )
    >>> batches = ra.TokenBatches(corpus, 4096, join=4, join_share=0.2)
    >>> model = ra.Transformer.from_preset(
    ...     "transformer_tiny_relative", vocabulary_size=len(vocabulary)
    ... )
    >>> model.compile("adam", ra.MaskedCrossEntropy())
    >>> history = model.fit(batches, steps_per_epoch=1, verbose=0)
    """

    def __init__(
        self,
        corpus: TokenCorpus,
        batch_tokens: int,
        seed: int = 0,
        start_token_id: int = 0,
        *,
        join: int | None = None,
        join_share: float = 0.3,
        max_length: int | None = None,
    ) -> None:
        self.corpus = corpus
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.start_token_id = start_token_id
        self.join = join
        self.join_share = join_share
        self.max_length = max_length
        # Rows of several pairs; without them, each pair is a row.
        self._joined: _JoinedRows | None = None
        if join is not None and checked_int("join", join) > 1:
            limit = min(batch_tokens, max_length or batch_tokens)
            self._joined = _JoinedRows(corpus, join, join_share, limit, seed)
        self._order = (self._joined or corpus).length_order
        self._bounds = self._cut()
        # Two epochs: while one ends, batches of the next are prefetched.
        self._epoch = functools.lru_cache(maxsize=2)(self._draw_epoch)

    def __len__(self) -> int:
        """Returns the number of batches of an epoch."""
        return len(self._bounds) - 1

    def source_length(self, share: float) -> int:
        """Returns the length that at most a share of source rows exceeds.

        Args:
            share: float in `[0, 1]`.

        Returns:
            int. The length in tokens, the end of sentence included.
        """
        order = self._order
        lengths = order.longest + np.minimum(order.difference, 0)
        return int(
            np.quantile(
                lengths,
                share,
                weights=np.diff(order.starts),
                method="inverted_cdf",
            )
        )

    def _cut(self) -> np.ndarray:
        """Returns the positions at which batches start, and the end."""
        order = self._order
        is_last = np.append(np.diff(order.longest) != 0, True)
        lengths = order.longest[is_last]
        # The end of the pairs of each length, and how many of them make a
        # batch.
        ends = order.starts[1:][is_last]
        rows = np.maximum(self.batch_tokens // lengths, 1)
        bounds = [0]
        while (start := bounds[-1]) < ends[-1]:
            # A longer pair makes the whole batch longer, so fewer rows fit. The
            # batch ends at the length with which it has the most rows.
            first = np.searchsorted(ends, start, "right")
            stops = np.minimum(ends[first:], start + rows[first:])
            bounds.append(int(stops.max()))
        return np.array(bounds)

    def indices(self, epoch: int | None = None) -> Iterator[np.ndarray]:
        """Yields the pairs of each batch of an epoch, as arrays of indices.

        Args:
            epoch: int. Number of the epoch, from 0. `None` is the order of
                the lengths, without shuffling, for evaluation.
        """
        for number in range(len(self)):
            yield self.batch_indices(epoch, number)

    def batch_indices(self, epoch: int | None, number: int) -> np.ndarray:
        """Returns the pairs of one batch, an array of indices.

        The time does not depend on the size of the corpus.

        Args:
            epoch: int or `None`, as for `indices`.
            number: int. Number of the batch in the epoch, from 0.
        """
        return self._pairs_and_sizes(epoch, number)[0]

    def line_numbers(self, step: int) -> list[int]:
        """Returns the lines of the files that a training step uses.

        Args:
            step: int. Number of the step over all epochs, from 0.

        Returns:
            Sorted list of int, the line numbers of the pairs, from 1.
        """
        indices = self.batch_indices(*divmod(step, len(self)))
        return sorted(self.corpus.line_numbers[indices].tolist())

    def _pairs_and_sizes(
        self, epoch: int | None, number: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the pairs of one batch, and how many pairs each row has."""
        if epoch is None:
            key, positions = None, self._positions(number)
        else:
            drawn = self._epoch(epoch)
            key = drawn.text_key
            positions = _permuted_within(
                drawn.bucket_starts,
                self._positions(drawn.batch_order[number]),
                drawn.key,
            )
        rows = self._order.pairs[positions]
        if self._joined is None:
            return rows, np.ones_like(rows)
        return self._joined.pairs(rows, key)

    def _positions(self, batch: int) -> np.ndarray:
        """Returns the positions of a batch in the order of lengths."""
        return np.arange(self._bounds[batch], self._bounds[batch + 1])

    def _draw_epoch(self, epoch: int) -> "_Epoch":
        # Resumed runs must draw the same: neither the order of these
        # draws nor their types may change.
        random = np.random.default_rng([self.seed, epoch])
        return _Epoch(
            # Any two neighboring pairs can be in one batch.
            bucket_starts=_bucket_starts(
                self._order, int(random.integers(_BUCKET_WIDTH))
            ),
            key=random.integers(2**64, dtype=np.uint64),
            # In memory, as it has one number per batch, not per pair.
            batch_order=random.permutation(len(self)).astype(np.uint32),
            text_key=random.integers(2**64, dtype=np.uint64),
        )

    def batch(self, indices: np.ndarray) -> Batch:
        """Returns arrays of the given pairs, as `Transformer` takes them.

        Each pair is a row.

        Args:
            indices: int array of pairs, see `batch_indices`.

        Returns:
            Pair of a dict, `"source_token_ids"` int32 `(B, S)` ending with
            id 1 and `"target_token_ids"` int32 `(B, T)` starting with
            `start_token_id`, and labels int32 `(B, T)` ending with id 1.
        """
        return self._padded(indices, np.ones_like(indices))

    def _padded(self, pairs: np.ndarray, sizes: np.ndarray) -> Batch:
        """Returns arrays of rows, the first of which has `sizes[0]` pairs."""
        # Imported here, as reading a corpus does not need Keras.
        from relative_attention.models.transformer import decoder_inputs

        corpus = self.corpus
        source = _rows_of(
            corpus.source_ids,
            corpus.source_offsets,
            pairs,
            sizes,
            corpus.source_end_id,
        )
        labels = _rows_of(
            corpus.target_ids, corpus.target_offsets, pairs, sizes, END_ID
        )
        if sizes.max() > 1 and all(corpus.sign_ids):
            _number_signs(corpus, pairs, sizes, (source, labels))
        # Nothing follows an end of sentence, so it is not an input.
        inputs = decoder_inputs(
            np.where(labels == END_ID, 0, labels), self.start_token_id
        )
        return {"source_token_ids": source, "target_token_ids": inputs}, labels

    def train_batch(self, step: int) -> Batch:
        """Returns the batch of a training step, see `batch`.

        Args:
            step: int. Number of the step over all epochs, from 0.
        """
        epoch, number = divmod(int(step), len(self))
        return self._padded(*self._pairs_and_sizes(epoch, number))

    def evaluation_batch(self, number: int) -> Batch:
        """Returns a batch of the order of the lengths, for evaluation.

        Args:
            number: int. Number of the batch, from 0.
        """
        return self.batch(self.batch_indices(None, int(number)))

    def train_dataset(self, first_step: int = 0) -> "tf.data.Dataset":
        """Returns an endless `tf.data.Dataset` of batches, epoch after epoch.

        Args:
            first_step: int. The training step to begin with. Defaults to
                `0`.
        """
        import tensorflow as tf

        steps = tf.data.Dataset.range(first_step, tf.int64.max)
        return _dataset(steps, self.train_batch)

    def evaluation_dataset(self) -> "tf.data.Dataset":
        """Returns a `tf.data.Dataset` of batches with every pair once."""
        import tensorflow as tf

        numbers = tf.data.Dataset.range(len(self))
        return _dataset(numbers, self.evaluation_batch)


@dataclasses.dataclass(frozen=True)
class _Epoch:
    """The random draws of an epoch."""

    bucket_starts: np.ndarray  # positions at which buckets start, and the end
    key: np.uint64  # of the permutations of the buckets
    batch_order: np.ndarray
    text_key: np.uint64  # of which pairs are joined


def _bucket_starts(order: LengthOrder, offset: int) -> np.ndarray:
    """Returns the positions at which shuffle buckets start, and the end."""
    # A bucket has the length groups of one longer side and two neighboring
    # differences: with the offset 0, -2 and -1, or 0 and 1; with the offset 1,
    # -1 and 0, or 1 and 2.
    rounded = (order.difference + offset) // _BUCKET_WIDTH
    is_first = np.ones(len(rounded), bool)
    is_first[1:] = (np.diff(rounded) != 0) | (np.diff(order.longest) != 0)
    return np.append(order.starts[:-1][is_first], order.starts[-1])


def _dataset(
    numbers: "tf.data.Dataset", batch: Callable[[int], Batch]
) -> "tf.data.Dataset":
    """Returns the batches that `batch` makes from a data set of numbers."""
    # Not `from_generator`, with which the C library returns memory to the
    # system all the time (M_TRIM_THRESHOLD), and every step allocates it again.
    import tensorflow as tf

    def load(number: int) -> tuple[np.ndarray, ...]:
        inputs, labels = batch(number)
        return *inputs.values(), labels

    def to_batch(
        number: "tf.Tensor",
    ) -> "tuple[dict[str, tf.Tensor], tf.Tensor]":
        arrays = tf.numpy_function(load, [number], [tf.int32] * 3)
        for array in arrays:
            array.set_shape((None, None))
        source, target, labels = arrays
        return {"source_token_ids": source, "target_token_ids": target}, labels

    options = tf.data.Options()
    # With several machines, each takes its rows of every batch.
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.DATA
    )
    # There is nothing to tune. Deleting an iterator waits for its tuning
    # thread, which may sleep for half a minute.
    options.autotune.enabled = False
    return numbers.map(to_batch).prefetch(2).with_options(options)


def _rows_of(
    ids: np.ndarray,
    offsets: np.ndarray,
    pairs: np.ndarray,
    sizes: np.ndarray,
    end_id: int,
) -> np.ndarray:
    """Joins sentences to rows with an end each, padded: int32 `(B, T)`."""
    starts = offsets[pairs].astype(np.int64)
    lengths = offsets[pairs + 1] - starts
    row_lengths = np.add.reduceat(lengths, np.cumsum(sizes) - sizes)
    is_token = np.arange(row_lengths.max() + 1) < row_lengths[:, None]
    rows = np.zeros(is_token.shape, np.int32)
    rows[is_token] = _take_ranges(ids, starts, lengths)
    rows[np.arange(len(rows)), row_lengths] = end_id
    return rows


def _number_signs(
    corpus: TokenCorpus,
    pairs: np.ndarray,
    sizes: np.ndarray,
    rows: tuple[np.ndarray, np.ndarray],
) -> None:
    """Numbers the signs of joined rows again, so that no two lines share one.

    The signs of the first line get the first numbers, and so on. After the last
    number comes the first.

    Args:
        corpus: `TokenCorpus`.
        pairs: int array, the pairs of the rows.
        sizes: int array `(B,)`. How many pairs each row has.
        rows: the ids of the sources and the targets, which are changed.
    """
    ids = [np.asarray(each) for each in corpus.sign_ids]
    offsets = corpus.source_offsets, corpus.target_offsets
    lengths = [each[pairs + 1] - each[pairs] for each in offsets]
    firsts = np.cumsum(sizes) - sizes
    has_signs = np.isin(rows[0], ids[0]).any(axis=1)
    for row in np.flatnonzero(has_signs & (sizes > 1)):
        count = 0
        starts = [0, 0]
        for pair in range(firsts[row], firsts[row] + sizes[row]):
            spans = []
            for side in (0, 1):
                end = starts[side] + int(lengths[side][pair])
                spans.append(rows[side][row, starts[side] : end])
                starts[side] = end
            old = np.flatnonzero(np.isin(ids[0], spans[0]))
            new = (count + np.arange(len(old))) % len(ids[0])
            count += len(old)
            for own, span in zip(ids, spans):
                places = [span == own[number] for number in old]
                for place, number in zip(places, new):
                    span[place] = own[number]


# === Joined rows ===


class _JoinedRows:
    """Rows of one or more pairs of a corpus, which change with a key.

    The pairs are divided into rows once, at random. A row then keeps its
    length: with a key, each pair is replaced by another of the same source
    length and the same target length. So the rows of all keys can be cut into
    the same batches, and with each key every pair is in one row.

    Args:
        corpus: `TokenCorpus`, which has the pairs.
        most: int. The most pairs of a row, at least 2.
        share: float in `[0, 1]`. The share of rows of several pairs.
        max_length: int. Rows that would have more tokens on a side, the end
            of sentence included, are single pairs instead.
        seed: int.

    Attributes:
        length_order: `LengthOrder` of the rows, whose lengths include the one
            end of sentence of each.

    Raises:
        ValueError: if `share` is not in `[0, 1]`.
    """

    def __init__(
        self,
        corpus: TokenCorpus,
        most: int,
        share: float,
        max_length: int,
        seed: int,
    ) -> None:
        checked_number(
            "join_share", share, lambda rate: 0 <= rate <= 1, "in [0, 1]"
        )
        # Other draws than those of epochs, which have the seed `[seed, epoch]`.
        random = np.random.default_rng([seed, 0, 1])
        count = len(corpus)
        places = random.permutation(count).astype(np.uint32)
        sizes = random.integers(2, most + 1, count, np.int32)
        sizes[random.random(count) >= share] = 1
        firsts = np.cumsum(sizes, dtype=np.int64) - sizes
        firsts = firsts[firsts < count]
        pairs = corpus.length_order.pairs[places]
        # Without the ends of sentences, of which a row has one.
        sides = (
            corpus.source_lengths[pairs] - 1,
            corpus.target_lengths[pairs] - 1,
        )
        longest = np.maximum(*(np.add.reduceat(side, firsts) for side in sides))
        is_first = np.repeat(
            longest + 1 > max_length, np.diff(firsts, append=count)
        )
        is_first[firsts] = True
        firsts = np.flatnonzero(is_first)
        source, target = (np.add.reduceat(side, firsts) + 1 for side in sides)
        self.length_order = order_by_length(source, target)
        self._corpus = corpus
        # For each pair of each row, its position in the order of lengths.
        self._places = places
        # Where each row starts in them, and where the last one ends.
        self._starts = np.append(firsts, count)

    def pairs(
        self, rows: np.ndarray, key: np.uint64 | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the pairs of some rows, and how many pairs each row has.

        With `key`, another pair of the same lengths is at each place.
        """
        starts = self._starts[rows]
        sizes = self._starts[rows + 1] - starts
        places = _take_ranges(self._places, starts, sizes).astype(np.int64)
        order = self._corpus.length_order
        if key is not None:
            places = _permuted_within(order.starts, places, key)
        return order.pairs[places], sizes


def _take_ranges(
    values: np.ndarray, starts: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
    """Returns ranges of an array, one after another.

    Of `[10, 11, 12, 13, 14]`, the ranges with the starts `[3, 0]` and the
    lengths `[2, 1]` are `[13, 14, 10]`.
    """
    ends = np.cumsum(lengths)
    shifts = np.repeat(starts - (ends - lengths), lengths)
    return values[np.arange(len(shifts)) + shifts]


# === Permutations by a key, one element at a time ===

# `tf.random.experimental.index_shuffle` does the same, but needs TensorFlow. It
# also draws other permutations, so older runs would resume with other batches.

# With three rounds, all orders of a range are about equally frequent.
_ROUNDS = 3
# The multipliers of SplitMix64, which spread every bit over all others.
_MULTIPLIERS = np.array([0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)
_STEP = 0x9E3779B97F4A7C15
# The difference between the keys of neighboring ranges: odd, so that no two
# keys are equal, and with bits well mixed, so that no two are similar.
_KEY_STEP = np.uint64(0xD1342543DE82EF95)
# Added to the key in the two halves of each round, so that they differ.
_ROUND_KEYS = [
    [np.uint64((2 * number + half) * _STEP % 2**64) for half in range(2)]
    for number in range(_ROUNDS)
]


def keyed_permutation(
    indices: np.ndarray, sizes: np.ndarray, keys: np.ndarray
) -> np.ndarray:
    """Permutes each index within its own range.

    Each size and key define one permutation of `range(size)`. Computing one of
    its elements takes the same time for all sizes.

    Args:
        indices: int array `(B,)`, each at least 0 and below its size.
        sizes: int array `(B,)`. Size of the range of each index.
        keys: uint64 array `(B,)`. Key of the permutation of each range.

    Returns:
        Int64 array `(B,)`.

    Reference:
     - [Black and Rogaway, 2002](https://doi.org/10.1007/3-540-45760-7_9):
       Feistel networks, repeated until the result is in the range.
    """
    values = np.array(indices, np.uint64)
    sizes = np.asarray(sizes, np.uint64)
    keys = np.asarray(keys, np.uint64)
    # The number of bits of the largest index, and at least one in either half.
    # The size is more than half of all numbers with these bits, so at least
    # every second number is in the range.
    _, bits = np.frexp(sizes.astype(np.float64) - 0.5)
    bits = np.maximum(bits, 2)
    low = (bits // 2).astype(np.uint64)
    high = bits.astype(np.uint64) - low
    # Cycle walking: a permutation of all numbers with these bits, repeated
    # until the result is in the range, is a permutation of the range.
    outside = np.arange(len(values))
    while len(outside):
        values[outside] = _encrypt(
            values[outside], low[outside], high[outside], keys[outside]
        )
        outside = outside[values[outside] >= sizes[outside]]
    return values.astype(np.int64)


def _permuted_within(
    starts: np.ndarray, positions: np.ndarray, key: np.uint64
) -> np.ndarray:
    """Shuffles positions within their ranges.

    No range is shuffled as a whole, so the time per position does not depend on
    the sizes.

    Args:
        starts: int array `(num_ranges + 1,)`. Where each range starts, and
            where the last one ends.
        positions: int array `(B,)`, at least 0 and below the last end.
        key: uint64. The permutation of a range depends on it and on the number
            of the range.

    Returns:
        Int64 array `(B,)` of positions.
    """
    ranges = np.searchsorted(starts, positions, "right") - 1
    first = starts[ranges]
    keys = ranges.astype(np.uint64) * _KEY_STEP + key
    return first + keyed_permutation(
        positions - first, starts[ranges + 1] - first, keys
    )


def _encrypt(
    values: np.ndarray, low: np.ndarray, high: np.ndarray, keys: np.ndarray
) -> np.ndarray:
    """Permutes the numbers of `low + high` bits, by a Feistel network.

    Each half round combines one half of the bits with a hash of the other half,
    by exclusive or. The other half is unchanged, so the step can be undone, and
    no two numbers become one.

    Args:
        values: uint64 array `(B,)`.
        low: uint64 array `(B,)`. Number of bits in the lower half.
        high: uint64 array `(B,)`. Number of bits in the upper half.
        keys: uint64 array `(B,)`.

    Returns:
        Uint64 array `(B,)`.
    """
    low_mask, high_mask = _ones(low), _ones(high)
    left, right = values >> low, values & low_mask
    for first, second in _ROUND_KEYS:
        left = left ^ (_mixed_bits(right + (keys + first)) & high_mask)
        right = right ^ (_mixed_bits(left + (keys + second)) & low_mask)
    return (left << low) | right


def _ones(bits: np.ndarray) -> np.ndarray:
    """Returns the numbers whose lowest bits are 1 and whose others are 0."""
    return (np.uint64(1) << bits) - np.uint64(1)


def _mixed_bits(values: np.ndarray) -> np.ndarray:
    """Returns a hash of each number: the last steps of SplitMix64."""
    for shift, multiplier in zip((30, 27), _MULTIPLIERS):
        values = (values ^ (values >> np.uint64(shift))) * multiplier
    return values ^ (values >> np.uint64(31))
