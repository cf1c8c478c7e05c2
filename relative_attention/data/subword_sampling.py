"""Draws how the text of a corpus is spelt in pieces, for training."""

import dataclasses

import numpy as np

from relative_attention.argument_checks import checked_int
from relative_attention.argument_checks import checked_rate
from relative_attention.data.bpe_dropout import bpe_dropout
from relative_attention.data.keyed_permutation import mixed_bits
from relative_attention.data.merge_table import MergeTable
from relative_attention.data.ranges import offsets_of
from relative_attention.data.ranges import take_ranges
from relative_attention.data.token_corpus import TokenCorpus
from relative_attention.data.vocabulary_kinds import AnyVocabulary

# Between the keys of neighbouring sentences: odd, lest two be equal.
_KEY_STEP = np.uint64(0xD1342543DE82EF95)
# Pairs that tell how much longer text becomes.
_SAMPLE = 4096


class SubwordSampling:
    """Spells training text at random, so that a model meets many spellings.

    Each merge of byte pairs is left out with a probability at each step
    (BPE-dropout), which breaks some words into smaller pieces, and so makes
    text longer (`growth`); the paper has 0.1. `TokenBatches` draws each pair
    anew in every epoch; what is validated and translated stays as the
    vocabulary encodes it.

    What is drawn is a function of the key, the pair and its side alone, and
    starts from the cached ids: the text is not read again, and nothing is
    written.

    Args:
        source_vocabulary: `Vocabulary` of byte pairs.
        target_vocabulary: `Vocabulary` of byte pairs, the same object where
            it is joint.
        rate: float. Probability in `[0, 1)` of leaving out a merge.
        max_length: int. A sentence that would have more tokens, its end
            included, stays as it is.

    Raises:
        InputError: if a vocabulary is of another kind, or has unused pieces.
        ValueError: if a number is out of its range.

    Reference:
     - [Provilkov et al., 2020](https://arxiv.org/abs/1910.13267)
    """

    def __init__(
        self,
        source_vocabulary: AnyVocabulary,
        target_vocabulary: AnyVocabulary,
        rate: float,
        max_length: int,
    ) -> None:
        self.rate = checked_rate("rate", rate)
        self.max_length = checked_int("max_length", max_length)
        source = MergeTable.of(source_vocabulary)
        is_joint = target_vocabulary is source_vocabulary
        target = source if is_joint else MergeTable.of(target_vocabulary)
        self._tables = (source, target)

    def draw(
        self, corpus: TokenCorpus, pairs: np.ndarray, key: int
    ) -> TokenCorpus:
        """Returns some pairs of a corpus, spelt at random.

        Args:
            corpus: `TokenCorpus`, which these vocabularies encoded.
            pairs: int array `(B,)`, the indices of the pairs to take.
            key: int, below 2^64. A pair is spelt alike with the same key,
                whatever others are taken.

        Returns:
            `TokenCorpus` of the `B` pairs, in memory.
        """
        pairs = np.asarray(pairs, np.int64)
        keys = mixed_bits(pairs.astype(np.uint64) * _KEY_STEP + np.uint64(key))
        source_ids, source_offsets = self._draw_side(
            0, corpus.source_ids, corpus.source_offsets, pairs, keys
        )
        target_ids, target_offsets = self._draw_side(
            1, corpus.target_ids, corpus.target_offsets, pairs, ~keys
        )
        return dataclasses.replace(
            corpus,
            source_ids=source_ids,
            source_offsets=source_offsets,
            target_ids=target_ids,
            target_offsets=target_offsets,
            line_numbers=corpus.line_numbers[pairs],
        )

    def growth(self, corpus: TokenCorpus) -> float:
        """Returns how much longer the longer side of a pair becomes.

        Args:
            corpus: `TokenCorpus`, of which some thousand pairs are drawn.

        Returns:
            float, the quotient of the two sums of lengths.
        """
        count = min(_SAMPLE, len(corpus))
        pairs = np.arange(count) * len(corpus) // count
        drawn = self.draw(corpus, pairs, 0)
        return _num_tokens(drawn, np.arange(count)) / _num_tokens(corpus, pairs)

    def _draw_side(
        self,
        side: int,
        ids: np.ndarray,
        offsets: np.ndarray,
        pairs: np.ndarray,
        keys: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns ids of one side of some pairs, and their offsets."""
        starts = offsets[pairs].astype(np.int64)
        lengths = offsets[pairs + 1].astype(np.int64) - starts
        plain = take_ranges(ids, starts, lengths).astype(np.int32)
        plain_offsets = offsets_of(lengths)
        drawn, drawn_offsets = bpe_dropout(
            self._tables[side], plain, plain_offsets, self.rate, keys
        )
        drawn_lengths = np.diff(drawn_offsets)
        # The end of sentence, which ids lack here, takes one position.
        is_drawn = drawn_lengths < self.max_length
        lengths = np.where(is_drawn, drawn_lengths, lengths)
        starts = np.where(
            is_drawn, drawn_offsets[:-1], len(drawn) + plain_offsets[:-1]
        )
        chosen = take_ranges(np.concatenate([drawn, plain]), starts, lengths)
        return chosen, offsets_of(lengths)


def _num_tokens(corpus: TokenCorpus, pairs: np.ndarray) -> int:
    """Returns the number of tokens of the longer sides of some pairs."""
    lengths = [
        offsets[pairs + 1].astype(np.int64) - offsets[pairs].astype(np.int64)
        for offsets in (corpus.source_offsets, corpus.target_offsets)
    ]
    return int((np.maximum(*lengths) + 1).sum())
