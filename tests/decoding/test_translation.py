"""Translations read from the ids that a search found."""

import numpy as np

import relative_attention as ra
from relative_attention.decoding.translation import read_translations

RESULTS = {
    "token_ids": np.array(
        [
            # The end is followed by anything; without an end, by padding.
            [[2, 3, 1, 7], [4, 0, 5, 0]],
            # Fewer were found than asked for.
            [[1, 0, 0, 0], [0, 0, 0, 0]],
        ]
    ),
    "scores": np.array([[-0.5, -1.5], [-1e7, -1e7]]),
}
SOURCES = [(5, 1), (6, 7, 1)]


def test_results_become_text_ids_and_scores(letters):
    first, second = read_translations(
        RESULTS, SOURCES, [False, True], letters()
    )
    assert [result.text for result in first] == ["abf", "cd"]
    assert [result.token_ids for result in first] == [(2, 3, 1), (4, 0, 5)]
    assert [result.score for result in first] == [-0.5, -1.5]
    assert [result.source_token_ids for result in first] == [(5, 1)] * 2
    # The first is a result whatever its score.
    assert second == [ra.Translation("", -1e7, True, (6, 7, 1), (1,))]


def test_attention_is_from_its_tokens_to_those_of_its_source(letters):
    attention = np.arange(2 * 2 * 1 * 3 * 4 * 3).reshape(2, 2, 1, 3, 4, 3)
    first, second = read_translations(
        {**RESULTS, "attention": attention}, SOURCES, [False] * 2, letters()
    )
    for found, wanted in (
        (first[0], attention[0, 0, :, :, :3, :2]),
        (first[1], attention[0, 1, :, :, :3, :2]),
        (second[0], attention[1, 0, :, :, :1, :3]),
    ):
        np.testing.assert_array_equal(found.attention, wanted)


def test_translation_is_a_line(letters):
    class Breaking(letters):
        def decode(self, rows):
            return ["a\nb"] * len(rows)

    found = read_translations(RESULTS, SOURCES, [False] * 2, Breaking())
    assert found[0][0].text == "a b"


def test_attention_is_no_part_of_equality():
    scores = np.zeros((1, 2, 3, 4))
    first, second = (
        ra.Translation("a", 0.0, False, attention=attention)
        for attention in (scores, None)
    )
    assert first == second


def test_translation_is_printed_on_a_line():
    attention = np.zeros((2, 4, 30, 30), np.float32)
    text = repr(ra.Translation("Ja.", -0.5, False, (5, 1), (7, 1), attention))
    assert text == (
        "Translation(text='Ja.', score=-0.5, was_cut=False, "
        "source_token_ids=(5, 1), token_ids=(7, 1))"
    )
