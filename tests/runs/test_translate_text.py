"""Which translation is taken, and how much of a text is done."""

import types

import pytest

from relative_attention.runs.translate_text import TranslationProgress
from relative_attention.runs.translate_text import closest_translations


def some(*texts):
    return [types.SimpleNamespace(text=text) for text in texts]


@pytest.mark.parametrize(
    ("tokenize", "expected"),
    # A token with a full stop is another token than one without.
    [
        ("13a", ["a b c d.", "x", "e f g h"]),
        ("none", ["q b c d .", "x", "e f g h"]),
    ],
)
def test_the_greatest_sentence_bleu_decides_and_then_the_order(
    tokenize, expected
):
    candidates = [
        some("a q c q", "a b c d.", "q b c d ."),
        some("x", "y"),
        some("e", "e f g h"),
    ]
    references = ["a b c d .", "z", "e f g h"]
    found = closest_translations(candidates, references, tokenize)
    assert [one.text for one in found] == expected


def test_time_left_is_that_of_the_lines_of_this_process():
    """An hour for 18,000 lines, after 2,000 that took no time of its own."""
    seconds = iter([50.0, 50.0 + 3600, 50.0 + 2 * 3600])
    progress = TranslationProgress(1_000_000, 2_000, lambda: next(seconds))
    assert progress.line(2_000) == "2,000 of 1,000,000 lines"
    assert (
        progress.line(20_000)
        == "20,000 of 1,000,000 lines, 5.0 a second, 54:26:40 left"
    )
    assert (
        progress.line(1_000_000)
        == "1,000,000 of 1,000,000 lines, 139 a second, 0:00:00 left"
    )
