"""Joins random pairs of a corpus to longer rows, for training."""

import numpy as np

from relative_attention.argument_checks import checked_number
from relative_attention.data.keyed_permutation import permuted_within
from relative_attention.data.length_order import order_by_length
from relative_attention.data.token_corpus import TokenCorpus


class JoinedRows:
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
        places = take_ranges(self._places, starts, sizes).astype(np.int64)
        order = self._corpus.length_order
        if key is not None:
            places = permuted_within(order.starts, places, key)
        return order.pairs[places], sizes


def take_ranges(
    values: np.ndarray, starts: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
    """Returns ranges of an array, one after another.

    Of `[10, 11, 12, 13, 14]`, the ranges with the starts `[3, 0]` and the
    lengths `[2, 1]` are `[13, 14, 10]`.
    """
    ends = np.cumsum(lengths)
    shifts = np.repeat(starts - (ends - lengths), lengths)
    return values[np.arange(len(shifts)) + shifts]
