"""Alignments of words, from attention scores that are known."""

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.decoding.alignment import word_alignment


class Pieces:
    """A vocabulary of pieces, `_` before the first of a word."""

    end_id = 1

    def __init__(self, *pieces):
        self.pieces = pieces

    def decode(self, rows):
        return [
            "".join(self.pieces[i] for i in row if i > 1)
            .replace("_", " ")
            .removeprefix(" ")
            for row in rows
        ]


SOURCE = Pieces("", "", "_the", "_c", "at", "_slept")
TARGET = Pieces("", "", "_geschlafen", "_hat", "_die", "_Kat", "ze", "_")


def scores(rows, num_columns):
    """Two blocks of two heads, of which the last block counts."""
    last = np.full((len(rows), num_columns), 0.01)
    for number, column in enumerate(rows):
        last[number, column] = 0.9
    first = last[::-1, ::-1]
    return np.stack([np.stack([some, some]) for some in (first, last)])


@pytest.mark.parametrize("blank", [(), (7,)], ids=["", "blank"])
def test_pieces_are_joined_into_words(blank):
    # "die Katze hat geschlafen", of "the cat slept".
    target = [4, *blank, 5, 6, 3, 2, 1]
    attended = [0, *[0] * len(blank), 1, 2, 3, 3, 4]
    found = word_alignment(
        scores(attended, 5), [2, 3, 4, 5, 1], target, (SOURCE, TARGET)
    )
    assert found == ((0, 0), (1, 1), (2, 2), (2, 3))


def test_end_of_sentence_is_not_aligned():
    # Both words attend to the end most.
    attention = scores([2, 2, 2], 3)
    attention[..., 0, 1] = 0.5
    attention[..., 1, 0] = 0.5
    found = word_alignment(attention, [2, 5, 1], [4, 3, 1], (SOURCE, TARGET))
    assert found == ((1, 0), (0, 1))
    assert word_alignment(attention, [1], [4, 1], (SOURCE, TARGET)) == ()
    assert word_alignment(attention, [2, 1], [1], (SOURCE, TARGET)) == ()


def test_unknown_characters_belong_to_their_word():
    # SentencePiece writes "5€ today" as "5 \u2047  today".
    source = Pieces("", "", "_5", " \u2047 ", "_today")
    found = word_alignment(
        scores([2, 1], 4), [2, 3, 4, 1], [2, 3, 1], (source, TARGET)
    )
    assert found == ((1, 0), (0, 1))
    # A word of its own stays one.
    found = word_alignment(
        scores([1], 4),
        [2, 5, 3, 4, 1],
        [2, 1],
        (Pieces(*source.pieces, "_"), TARGET),
    )
    assert found == ((1, 0),)


@pytest.mark.parametrize("end", [True, False])
def test_start_of_a_source_is_no_word(end):
    special = ["<blank>", "</s>", "<s>"]
    words = ["the", "cat", "<unk>"]
    source = ra.TokenVocabulary([*special, *words], start=True, end=end)
    ids = [*source.encode(["the cat"])[0], source.end_id]
    attention = scores([2, 0, 1], len(ids))
    # The start is attended to most.
    attention[..., 1, 2] = 0.8
    found = word_alignment(attention, ids, [3, 2, 4], (source, TARGET))
    assert found == ((1, 0), (1, 1), (0, 2))


def test_translator_aligns_the_words_that_it_returns():
    translator = ra.load_translator("tatoeba_en_de")
    lines = ["I don't know where my sister lives now.", " ", "I know."]
    found = translator.search(lines, return_alignment=True)
    assert found[0].text == "Ich weiß nicht, wo meine Schwester jetzt wohnt."
    source_of = {target: source for source, target in found[0].alignment}
    assert list(source_of) == list(range(8))
    # Of words with one counterpart: Ich, weiß, wo, meine, Schwester, jetzt.
    assert [source_of[word] for word in (0, 1, 3, 4, 5, 6)] == [
        0,
        2,
        3,
        4,
        5,
        7,
    ]
    assert found[1].alignment == ()
    assert found[0].attention is None


@pytest.mark.large
def test_sampled_translations_are_aligned_word_by_word():
    translator = ra.load_translator("tatoeba_en_de")
    lines = ["I don't know where my sister lives now.", " ", "I know."]
    for one in translator.sample(lines, seed=1, return_alignment=True):
        words = [target for _, target in one.alignment]
        assert words == list(range(len(one.text.split())))
