"""Spells text in pieces at random, by BPE-dropout."""

import itertools

import numpy as np

from relative_attention.data.keyed_permutation import mixed_bits
from relative_attention.data.merge_table import MergeTable
from relative_attention.data.merge_table import find
from relative_attention.data.ranges import offsets_of
from relative_attention.data.ranges import take_ranges

# The lower bits of an order are a place, the others are a priority.
_PLACE_BITS = 32
_PLACE = (1 << _PLACE_BITS) - 1
_NEVER = np.iinfo(np.int64).max
# What SplitMix64 adds for its next number.
_STEP = 0x9E3779B97F4A7C15


def bpe_dropout(
    table: MergeTable,
    ids: np.ndarray,
    offsets: np.ndarray,
    rate: float,
    keys: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Spells sentences anew, merges being left out with a probability.

    A word is cut into characters, and these are merged as when it is encoded,
    one merge at a step. But at every step each possible merge is left out at
    the given rate; the first of the others is made, and where none is left the
    word is done. (A word is whatever no merge joins with what stands beside
    it.) SentencePiece's own sampling never tries again what it left out once,
    so at the same rate it makes many more pieces than the paper.

    A draw is a hash of the sentence's key, of where the merge stands and of
    the step: it is the same in whatever order, batch, process or version of a
    library.

    Args:
        table: `MergeTable` of the vocabulary.
        ids: int array, the ids of all sentences, one after another, as the
            vocabulary encodes them.
        offsets: int array `(B + 1,)`. Where each sentence starts in `ids`,
            and where the last one ends.
        rate: float. Probability in `[0, 1)` of leaving out a merge.
        keys: uint64 array `(B,)`. A random number for each sentence.

    Returns:
        Pair of an int32 array of ids, which spell the same text, and an int64
        array `(B + 1,)` of their offsets.

    Reference:
     - [Provilkov et al., 2020](https://arxiv.org/abs/1910.13267), algorithm 1
    """
    starts = table.offsets[ids]
    lengths = table.offsets[ids + 1] - starts
    pieces = offsets_of(lengths)
    # Where each sentence starts among the characters.
    sentences = pieces[offsets]
    symbols = take_ranges(table.symbols, starts, lengths)
    is_left = np.ones(len(symbols), bool)
    if len(symbols):
        words = _word_starts(table, symbols, pieces[:-1], sentences[:-1])
        draws = _Draws(rate, keys, sentences)
        is_left = _Merges(table, symbols, words).apply(draws)
    return symbols[is_left], offsets_of(is_left)[sentences]


def _word_starts(
    table: MergeTable,
    symbols: np.ndarray,
    pieces: np.ndarray,
    sentences: np.ndarray,
) -> np.ndarray:
    """Returns where parts of the text start that no merge ever joins.

    Inside a piece all neighbours may meet, so only the first characters of
    pieces are looked at.

    Args:
        table: `MergeTable`.
        symbols: int32 array, the characters.
        pieces: int64 array, where each piece starts among them.
        sentences: int64 array, where each sentence does.
    """
    is_start = np.zeros(len(symbols), bool)
    later = pieces[1:]
    is_start[later] = ~find(
        table.neighbours, table.pair(symbols[later - 1], symbols[later])
    )[1]
    # An empty sentence at the end starts where there is nothing.
    is_start[sentences[sentences < len(symbols)]] = True
    return np.flatnonzero(is_start)


class _Draws:
    """Says which merges are left out: SplitMix64, a generator a place.

    Args:
        rate: float. The probability.
        keys: uint64 array `(B,)`. That of each sentence.
        sentences: int64 array `(B + 1,)`. Where each starts among the
            characters, and where the last one ends.
    """

    def __init__(
        self, rate: float, keys: np.ndarray, sentences: np.ndarray
    ) -> None:
        lengths = np.diff(sentences)
        place = np.arange(sentences[-1]) - np.repeat(sentences[:-1], lengths)
        self._states = mixed_bits(
            np.repeat(keys, lengths)
            + place.astype(np.uint64) * np.uint64(_STEP)
        )
        self._limit = np.uint64(rate * 2.0**64)

    def is_left_out(self, places: np.ndarray, step: int) -> np.ndarray:
        """Returns whether the merges at some places are left out at a step."""
        added = np.uint64((step + 1) * _STEP % 2**64)
        return mixed_bits(self._states[places] + added) < self._limit


class _Merges:
    """Merges symbols, in all words at the same time.

    A symbol stands at the place of its first character, so that a place that
    holds one now may hold none later.

    Args:
        table: `MergeTable`.
        symbols: int32 array, the characters, to be changed.
        words: int64 array, where each word starts among them.
    """

    def __init__(
        self, table: MergeTable, symbols: np.ndarray, words: np.ndarray
    ) -> None:
        size = len(symbols)
        self._table = table
        self._symbols = symbols
        self._words = words
        # The places of the symbols beside each, beyond the text at its ends.
        self._next = np.arange(1, size + 1)
        self._previous = np.arange(-1, size)
        # The word of each place; the last stands for those beyond the text.
        self._word = np.full(size + 1, -1)
        self._word[:-1] = np.repeat(
            np.arange(len(words)), np.diff(words, append=size)
        )
        # When a symbol merges with the next, and into what.
        self._order = np.full(size, _NEVER)
        self._merged = np.zeros(size, np.int32)

    def apply(self, draws: _Draws) -> np.ndarray:
        """Merges until nothing is left to merge, or all of it is left out.

        Returns:
            Bool array, whether a place still holds a symbol.
        """
        is_left = np.ones(len(self._symbols), bool)
        self._look_up(np.arange(len(self._symbols)))
        for step in itertools.count():
            places = np.flatnonzero(self._order != _NEVER)
            if not len(places):
                break
            drawn = np.where(
                draws.is_left_out(places, step), _NEVER, self._order[places]
            )
            words = self._word[places]
            # Places stand in order, and so do the words.
            starts = np.flatnonzero(np.diff(words, prepend=-1))
            first = np.minimum.reduceat(drawn, starts)
            left = first[first != _NEVER] & _PLACE
            # Words without a merge are done.
            is_done = np.ones(len(self._words), bool)
            is_done[self._word[left]] = False
            self._order[places[is_done[words]]] = _NEVER
            is_left[self._next[left]] = False
            self._merge(left)
        return is_left

    def _merge(self, left: np.ndarray) -> None:
        """Merges the symbols at some places with those that come next."""
        right = self._next[left]
        after = self._next[right]
        self._symbols[left] = self._merged[left]
        self._order[right] = _NEVER
        self._next[left] = after
        self._previous[after] = left
        before = self._previous[left]
        is_inside = self._word[before] == self._word[left]
        self._look_up(np.concatenate([left, before[is_inside]]))

    def _look_up(self, left: np.ndarray) -> None:
        """Finds out when symbols merge with those that come next, if ever."""
        self._order[left] = _NEVER
        right = self._next[left]
        is_inside = self._word[right] == self._word[left]
        left, right = left[is_inside], right[is_inside]
        found, is_merge = find(
            self._table.pairs,
            self._table.pair(self._symbols[left], self._symbols[right]),
        )
        left, found = left[is_merge], found[is_merge]
        priorities = self._table.priorities[found]
        self._order[left] = (priorities << _PLACE_BITS) | left
        self._merged[left] = self._table.merged[found]
