"""Batches of sentences of like length."""

import numpy as np

from relative_attention.decoding.sentence_batches import longest_first_batches
from relative_attention.decoding.sentence_batches import padded_rows


def test_batches_are_full_and_the_longest_come_first():
    lengths = {0: (3,), 1: (6,), 4: (3,), 5: (2,), 7: (4,)}
    # One of 6, two of 4 (with a 3 padded to it), and the others.
    assert list(longest_first_batches(lengths, 8)) == [[1], [7, 0], [4, 5]]


def test_sentence_longer_than_a_batch_is_one_of_its_own():
    lengths = {0: (9,), 1: (2,), 2: (2,)}
    assert list(longest_first_batches(lengths, 4)) == [[0], [1, 2]]
    assert list(longest_first_batches({}, 4)) == []


def test_other_lengths_decide_between_equals():
    lengths = {0: (3, 1), 1: (3, 2), 2: (3, 1), 3: (3, 3)}
    assert list(longest_first_batches(lengths, 12)) == [[3, 1, 0, 2]]


def test_rows_are_padded_behind():
    padded = padded_rows([(5, 1), (), (7, 8, 1)])
    assert padded.dtype == np.int32
    assert padded.tolist() == [[5, 1, 0], [0, 0, 0], [7, 8, 1]]
    assert padded_rows([(), ()]).shape == (2, 0)
