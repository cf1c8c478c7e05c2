"""Line breaks within a sentence become blanks."""

import pytest

from relative_attention.corpora.one_line import one_line


@pytest.mark.parametrize(
    "text, line",
    [
        pytest.param("as it was", "as it was", id="none"),
        pytest.param("two\r\nlines", "two lines", id="one_blank_for_a_run"),
        pytest.param("a\u2028b\u0085c\x0cd", "a b c d", id="unicode"),
        pytest.param("a \n b", "a   b", id="blanks_stay"),
        pytest.param(" a\n", "a", id="ends"),
        pytest.param("\n \u2029", "", id="nothing_else"),
    ],
)
def test_line(text, line):
    assert one_line(text) == line


def test_result_is_one_line_to_python():
    breaks = [
        character
        for character in map(chr, range(0x3000))
        if len(f"a{character}b".splitlines()) > 1
    ]
    assert one_line(f"a{''.join(breaks)}b") == "a b"
