"""Of several translations the one closest to the reference is taken."""

import types

import pytest

from relative_attention.runs.closest_translations import closest_translations


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
