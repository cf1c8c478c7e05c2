"""Cuts a corpus into batches of similar length by a budget of tokens."""

import dataclasses
import functools
from collections.abc import Callable
from collections.abc import Iterator
from typing import TYPE_CHECKING
from typing import TypeAlias

import numpy as np

from relative_attention.argument_checks import checked_int
from relative_attention.data.joined_rows import JoinedRows
from relative_attention.data.joined_rows import take_ranges
from relative_attention.data.keyed_permutation import permuted_within
from relative_attention.data.length_order import LengthOrder
from relative_attention.data.token_corpus import TokenCorpus

if TYPE_CHECKING:
    import tensorflow as tf

# Inputs of a `Transformer`, and labels.
Batch: TypeAlias = tuple[dict[str, np.ndarray], np.ndarray]

_END_ID = 1
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
    >>> batches = TokenBatches(corpus, 4096, join=4, join_share=0.2)
    >>> model.fit(batches, validation_data=TokenBatches(validation, 4096))
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
        self._joined: JoinedRows | None = None
        if join is not None and checked_int("join", join) > 1:
            limit = min(batch_tokens, max_length or batch_tokens)
            self._joined = JoinedRows(corpus, join, join_share, limit, seed)
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
            positions = permuted_within(
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
            corpus.source_ids, corpus.source_offsets, pairs, sizes
        )
        labels = _rows_of(
            corpus.target_ids, corpus.target_offsets, pairs, sizes
        )
        # Nothing follows an end of sentence, so it is not an input.
        inputs = decoder_inputs(
            np.where(labels == _END_ID, 0, labels), self.start_token_id
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
    ids: np.ndarray, offsets: np.ndarray, pairs: np.ndarray, sizes: np.ndarray
) -> np.ndarray:
    """Joins sentences to rows with an end each, padded: int32 `(B, T)`."""
    starts = offsets[pairs].astype(np.int64)
    lengths = offsets[pairs + 1] - starts
    row_lengths = np.add.reduceat(lengths, np.cumsum(sizes) - sizes)
    is_token = np.arange(row_lengths.max() + 1) < row_lengths[:, None]
    rows = np.zeros(is_token.shape, np.int32)
    rows[is_token] = take_ranges(ids, starts, lengths)
    rows[np.arange(len(rows)), row_lengths] = _END_ID
    return rows
