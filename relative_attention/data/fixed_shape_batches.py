"""Batches with few shapes, for backends that compile a step per shape."""

import functools

import numpy as np

from relative_attention.argument_checks import checked_at_least
from relative_attention.data.token_batches import Batch
from relative_attention.data.token_batches import TokenBatches
from relative_attention.data.token_corpus import TokenCorpus


class FixedShapeBatches(TokenBatches):
    """Cuts a corpus into batches with one of a few shapes.

    XLA compiles a training step for every shape of a batch. These are
    `TokenBatches`, with the same shuffling, and can resume at any step. But
    both sides of a batch are padded to one of `num_shapes` lengths, and a
    batch of length `T` always has `batch_tokens // T` rows. Pairs that do not
    fill a batch go into a batch of the next length. Rows that are still
    missing, as in the last batch, are padding, id 0.

    The lengths are chosen for the corpus, to pad the longer sides least (see
    `choose_lengths`).

    Args:
        corpus, batch_tokens, seed, start_token_id: as for `TokenBatches`.
        num_shapes: int. Largest number of shapes. Defaults to `12`.
        join, join_share, max_length: as for `TokenBatches`.

    Raises:
        ValueError: if `num_shapes` is not positive.

    Example:
    >>> text = ra.write_spoken_numbers("numbers", train_pairs=500)["train"]
    >>> lines = (line for pair in text for line in pair)
    >>> vocabulary = ra.Vocabulary.train(lines, 400)
    >>> corpus = ra.TokenCorpus.prepare(
    ...     text, vocabulary, vocabulary, 100, "ids"
    ... )
    >>> batches = ra.FixedShapeBatches(corpus, 4096, num_shapes=4)
    >>> len(batches.shapes)
    4
    """

    def __init__(
        self,
        corpus: TokenCorpus,
        batch_tokens: int,
        seed: int = 0,
        start_token_id: int = 0,
        num_shapes: int = 12,
        *,
        join: int | None = None,
        join_share: float = 0.3,
        max_length: int | None = None,
    ) -> None:
        self.num_shapes = checked_at_least("num_shapes", num_shapes, 1)
        super().__init__(
            corpus,
            batch_tokens,
            seed,
            start_token_id,
            join=join,
            join_share=join_share,
            max_length=max_length,
        )

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """The shapes `(B, T)` of both sides of a batch, shortest first."""
        return [
            (self._num_rows(length), length)
            for length in self._lengths.tolist()
        ]

    @functools.cached_property
    def padding_share(self) -> float:
        """The share of the positions of an epoch that hold no token."""
        order = self._order
        # The last row of a batch is its longest.
        last = np.searchsorted(order.starts, self._bounds[1:] - 1, "right") - 1
        num_positions = sum(
            2 * self._num_rows(length) * length
            for length in map(self._length, order.longest[last].tolist())
        )
        num_tokens = len(self.corpus.source_ids) + len(self.corpus.target_ids)
        num_tokens += 2 * len(order.pairs)  # The ends of sentences.
        return 1 - num_tokens / num_positions

    def _padded(self, pairs: np.ndarray, sizes: np.ndarray) -> Batch:
        inputs, labels = super()._padded(pairs, sizes)
        source = inputs["source_token_ids"]
        length = self._length(max(source.shape[1], labels.shape[1]))
        shape = (max(self._num_rows(length), len(sizes)), length)
        return (
            {name: _fill(ids, shape) for name, ids in inputs.items()},
            _fill(labels, shape),
        )

    def _cut(self) -> np.ndarray:
        longest, starts = self._order.longest, self._order.starts
        self._lengths = choose_lengths(
            longest, np.diff(starts), self.num_shapes
        )
        bounds = [0]
        for length in self._lengths.tolist():
            end = int(starts[np.searchsorted(longest, length, "right")])
            rows = self._num_rows(length)
            # Pairs left over become part of a batch of longer pairs.
            bounds += range(bounds[-1] + rows, end + 1, rows)
        if bounds[-1] < starts[-1]:
            bounds.append(int(starts[-1]))
        return np.array(bounds)

    def _num_rows(self, length: int) -> int:
        """Returns how many rows a batch of a length has."""
        return max(self.batch_tokens // length, 1)

    def _length(self, longest: int) -> int:
        """Returns the length to pad a batch to, from its longest row."""
        return int(self._lengths[np.searchsorted(self._lengths, longest)])


def _fill(ids: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Pads ids with rows and columns of id 0 to a shape."""
    missing = [(0, size - given) for size, given in zip(shape, ids.shape)]
    return np.pad(ids, missing)


def choose_lengths(
    lengths: np.ndarray, counts: np.ndarray, num_lengths: int
) -> np.ndarray:
    """Returns the lengths that pad sentences least.

    A sentence is padded to the next chosen length. Dynamic programming finds
    the choice with the fewest positions in total:

        best[n][j] = min over i < j of best[n - 1][i] + count(i + 1 .. j) T_j

    `T_j` is the `j`-th length that occurs. `best[n][j]` is the number of
    positions of all sentences up to that length, with `n` lengths.

    Args:
        lengths: int array of lengths in ascending order, which may repeat.
        counts: int array of the same shape, how many sentences have each.
        num_lengths: int, the most lengths to choose.

    Returns:
        Int array `(n,)`, ascending, `n` at most `num_lengths`; the last is
        the largest of `lengths`.
    """
    values, places = np.unique(lengths, return_inverse=True)
    sums = np.bincount(places, weights=counts).astype(np.int64)
    # Numbers of sentences shorter than each length, and of all sentences.
    before = np.concatenate([[0], np.cumsum(sums)])
    size = len(values)
    best = before[1:] * values
    previous: list[np.ndarray] = []
    for _ in range(min(num_lengths, size) - 1):
        following, chosen = best.copy(), np.full(size, -1)
        for end in range(1, size):
            # The length before the last one may be any shorter one.
            padded = (before[end + 1] - before[1 : end + 1]) * values[end]
            totals = best[:end] + padded
            place = int(totals.argmin())
            if totals[place] < following[end]:
                following[end], chosen[end] = totals[place], place
        best = following
        previous.append(chosen)
    ends = [size - 1]
    for chosen in reversed(previous):
        # -1 if fewer lengths are as good.
        if chosen[ends[-1]] >= 0:
            ends.append(int(chosen[ends[-1]]))
    return values[ends[::-1]]
