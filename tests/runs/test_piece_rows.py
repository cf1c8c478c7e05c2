"""Rows of a new vocabulary, in small."""

import numpy as np

from relative_attention.runs.piece_rows import PieceRows


class Pieces:
    """A vocabulary of these pieces."""

    padding_id = 0
    end_id = 1

    def __init__(self, *pieces):
        self._pieces = ["<pad>", "</s>", *pieces]

    def __len__(self):
        return len(self._pieces)

    def pieces(self, token_ids):
        return [self._pieces[token_id] for token_id in token_ids]


OLD = Pieces("the", "cat", "c", "s", "cat")
# Copied, spelt by `cat` and `s`, by `c` twice, and none.
NEW = Pieces("cat", "cats", "the", "cc", "dog")


def test_rows_are_copied_spelt_or_new():
    rows = PieceRows(OLD, NEW)
    # Of the two pieces `cat` the first.
    assert rows.copied == {0: 0, 1: 1, 2: 3, 4: 2}
    assert rows.spelt == {3: [3, 5], 5: [4, 4]}
    old = np.array([[0], [10], [20], [30], [40], [50], [60]], "float32")
    new = -np.ones((7, 1), "float32")
    result = rows.transfer(old, new)
    np.testing.assert_array_equal(
        result, [[0], [10], [30], [40], [20], [40], [-1]]
    )
    # The initial rows are left as they are.
    assert (new == -1).all() and result.dtype == np.float32


def test_kinds_are_counted():
    assert str(PieceRows(OLD, NEW)) == (
        "of 7 pieces, 4 (57.1%) keep their rows, 2 (28.6%) get the mean of "
        "the pieces that spell them, 1 (14.3%) start anew"
    )


def test_special_tokens_are_known_by_their_ids():
    """Whatever they are called, as the start token of OpenNMT-tf."""
    old, new = Pieces("<s>", "a"), Pieces("a", "b")
    assert PieceRows(old, new, start_token_id=2).copied == {0: 0, 1: 1, 2: 2}


def test_longest_piece_spells_first():
    rows = PieceRows(Pieces("a", "ab", "b", "bc", "c"), Pieces("abc", "cab"))
    # ab + c, not a + bc; c + ab.
    assert rows.spelt == {2: [3, 6], 3: [6, 3]}
