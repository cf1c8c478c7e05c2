"""Clean text, in Python and in a TensorFlow graph."""

import random
import unicodedata

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.text.form import clean_lines
from relative_attention.text.form import clean_text
from tests.small_models import CLEAN
from tests.small_models import FORMS


@pytest.fixture(
    params=[0x10000, pytest.param(0x110000, marks=pytest.mark.large)],
    ids=["basic", "all"],
)
def characters(request):
    """All characters, or those of the basic plane, a 17th of them."""
    codes = range(request.param)
    return [chr(code) for code in codes if not 0xD800 <= code < 0xE000]


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_one_text_are_cleaned_to_one(form):
    assert FORMS[form] != CLEAN
    assert ra.clean_text(FORMS[form]) == CLEAN


def test_joiners_of_scripts_and_emoji_stay():
    for text in (
        "می\u200cخواهم",
        "👩\u200d👩\u200d👧🏽🇩🇪",
        "\u202bשלום\u202c \u200fשלום",
        "½ ² ﬁ ｆｕｌｌ",
        "no tags: <b>x</b> &amp;",
    ):
        assert ra.clean_text(text) == text


def test_signs_stay_only_where_the_package_put_them():
    text = "a \x01\tb\x08!\x00"
    assert ra.clean_text(text) == "a b!"
    assert clean_text(text, keep_signs=True) == "a \x01 b\x08!"
    assert clean_lines(f" {text} \r\n c", keep_signs=True) == (
        "a \x01 b\x08!\nc"
    )


def test_blanks_are_unified_and_control_characters_removed(characters):
    cleaned = {c: ra.clean_text(f"a{c}b") for c in characters}
    blanks = {c for c, text in cleaned.items() if text == "a b"}
    assert blanks == {c for c in characters if c.isspace()} | {"\u2581"}
    removed = {c for c, text in cleaned.items() if text == "ab"}
    controls = {c for c in characters if unicodedata.category(c) == "Cc"}
    assert removed == (controls - blanks) | set("\u00ad\u200b\u2060\ufeff")


def test_runs_of_combining_marks_are_bounded(monkeypatch):
    lengths = []
    normalize = unicodedata.normalize

    def counted(form, text):
        lengths.append(len(text))
        return normalize(form, text)

    monkeypatch.setattr(unicodedata, "normalize", counted)
    for count in (30, 3_000, 60_000):
        cleaned = ra.clean_text("e" + "\u0301\u0323" * count + "!")
        assert cleaned == normalize("NFC", "e" + "\u0301\u0323" * 15) + "!"
        assert ra.clean_text(cleaned) == cleaned
    # NFC takes quadratic time on what it is given.
    assert max(lengths) <= 32
    # Two marks each: cut again.
    twice = ra.clean_text("a" + "\u0344" * 30)
    assert ra.clean_text(twice) == twice


@pytest.mark.only_on("tensorflow", reason="the graph is TensorFlow's")
def test_graph_cleans_text_the_same_way(characters):
    import tensorflow as tf

    from relative_attention.text.form import clean_text_in_graph

    rng = random.Random(7)
    # Of newer versions of Unicode one side may know a letter that the other
    # does not, and no version composes a character that has none of its own.
    assigned = [c for c in characters if unicodedata.category(c) != "Cn"]
    decomposed = [unicodedata.normalize("NFD", c) for c in assigned]
    decomposed = [d for c, d in zip(assigned, decomposed) if c != d]
    marks = [c for c in assigned if unicodedata.combining(c)]
    pool = [*decomposed, *marks * 4, *map(chr, range(0x250))]
    pool += [*"a e b ", *map(chr, range(0x1100, 0x1200))]
    pool += [*map(chr, range(0x2000, 0x2100))] * 4
    texts = [
        *(f"a{c}b" for c in characters),
        *decomposed,
        # Marks are sorted, and composed where they then stand side by side.
        *(f"a\u0323{c}\u0301" for c in marks),
        *("".join(rng.choices(pool, k=12)) for _ in characters[::50]),
        *(f"e{mark * 40}!" for mark in ("\u0301", "\u0301\u0323", "\u0344")),
    ]
    graph = tf.function(clean_text_in_graph)
    found = graph(tf.constant(texts)).numpy()
    expected = [ra.clean_text(text) for text in texts]
    assert [text.decode() for text in found] == expected
    assert list(map(ra.clean_text, expected)) == expected
    invalid = graph(tf.constant([b"two \xc3 \xff"])).numpy()
    assert invalid.tolist() == ["two \ufffd \ufffd".encode()]
    # Of any shape.
    shaped = graph(tf.constant([["a  b"], ["\ta"]])).numpy()
    np.testing.assert_array_equal(shaped, [[b"a b"], [b"a"]])
