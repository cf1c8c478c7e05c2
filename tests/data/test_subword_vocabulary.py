"""tensor2tensor's subwords, id for id."""

import sys

import pytest

from relative_attention import InputError
from relative_attention import SubwordVocabulary
from relative_attention.data import subword_vocabulary

SPECIAL = ["<pad>_", "<EOS>_"]
ESCAPES = list("\\_u;0123456789")
# "cats" and "cat", "s_" make the same word; so do "the_" and "th", "e_".
LONG = ["the_", "th", "e_", "cat", "s_", "cats", ", ", "42_", "é"]
SINGLE = sorted({c for word in SPECIAL + LONG for c in word} - {*ESCAPES, "é"})


def file_of(subwords, quote="'"):
    return "".join(f"{quote}{word}{quote}\n" for word in subwords).encode()


@pytest.fixture
def vocabulary():
    return SubwordVocabulary(file_of(SPECIAL + LONG + SINGLE + ESCAPES))


@pytest.fixture
def ids_of(vocabulary):
    """The ids of subwords, given one by one."""
    pieces = vocabulary.pieces(range(len(vocabulary)))
    return lambda subwords: [pieces.index(subword) for subword in subwords]


# === Encoding and decoding ===


def test_ids_and_text_are_those_of_tensor2tensor(golden):
    info = golden("V_subword_vocabulary").info
    vocabulary = SubwordVocabulary(info["subwords"].encode())
    assert len(vocabulary) == info["vocabulary_size"]
    lines = [line["text"] for line in info["lines"]]
    assert vocabulary.encode(lines) == [line["ids"] for line in info["lines"]]
    for rows in (info["lines"], info["random_rows"]):
        found = vocabulary.decode([row["ids"] for row in rows])
        assert found == [row["decoded"] for row in rows]


def test_rows_are_the_same_when_the_cache_is_small(vocabulary, monkeypatch):
    lines = ["the cats, 42", "e_e the cat th", "  the cats \\"] * 3
    monkeypatch.setattr(subword_vocabulary, "_MAX_CACHED_SEGMENTS", 2)
    small = SubwordVocabulary(vocabulary.model)
    assert small.encode(lines) == vocabulary.encode(lines)


@pytest.mark.parametrize("highest", [0x7F, 0xFFFF, sys.maxunicode])
def test_random_line_comes_back(highest, vocabulary, rng):
    known = [ord(c) for c in " \\_u;12thecas,é"]
    lines = []
    for length in rng.integers(0, 30, 100):
        points = rng.integers(0, highest + 1, length)
        near = rng.random(length) < 0.5
        points[near] = rng.choice(known, near.sum())
        lines.append("".join(map(chr, points)))
    assert vocabulary.decode(vocabulary.encode(lines)) == lines


@pytest.mark.parametrize(
    "subwords, text",
    [
        pytest.param([*r"\1114112;_"], "\u3013", id="beyond_unicode"),
        pytest.param(["\\", *"9" * 5000, ";"], "\u3013", id="beyond_python"),
        pytest.param([*r"\12_"], r"\12", id="escape_cut_short"),
    ],
)
def test_text_of_any_subwords(subwords, text, vocabulary, ids_of):
    assert vocabulary.decode([ids_of(subwords)]) == [text]


def test_decode_stops_at_the_end_and_leaves_out_padding(vocabulary):
    first, second = vocabulary.encode(["the cat", "42"])
    rows = [
        [*first, 1, *second, 1],
        [0, *first[:2], 0, *first[2:], 0, 0],
        [*first, 1, 0],
        [1, *first],
        [0, 0],
        [],
    ]
    assert vocabulary.decode(rows) == ["the cat"] * 3 + [""] * 3
    assert vocabulary.decode([]) == []

    # Ids outside the vocabulary are nothing.
    size = len(vocabulary)
    assert vocabulary.decode([[2, size, 2, -1, size + 9]]) == ["the the"]
    assert vocabulary.pieces([size - 1, size, -1, 0]) == ["9", "", "", "<pad>_"]


# === Files ===


# Lines of a file, and the subwords that they hold.
ODD_LINES = {
    "''": "",
    "": "",
    "'": "",
    '"': "",
    "'''": "'",
    "'it's_'": "it's_",
    "'a\"": "'a\"",
    "b'": "b'",
    "  c  ": "  c",
    "' d '  ": " d ",
    "e\u00a0\u3000": "e",
    "'\u2028'\x1c": "\u2028",
    "f\x85g": "f\x85g",
    "'h\r'\r": "h",
    "i\rj": "ij",
    "last": "last",
}


def test_lines_are_read_as_tensor2tensor_reads_them(tmp_path):
    import tensorflow as tf

    lines = [*SPECIAL, *ODD_LINES]
    path = tmp_path / "odd.subwords"
    # Without a line feed at the end.
    path.write_bytes("\n".join(lines).encode())
    vocabulary = SubwordVocabulary.load(path)
    subwords = vocabulary.pieces(range(len(vocabulary)))
    assert subwords == [*SPECIAL, *ODD_LINES.values()]
    # Its lines are those of TensorFlow, which alone knows no "\r".
    with tf.io.gfile.GFile(str(path)) as file:
        for line, subword in zip(file, subwords, strict=True):
            assert line.rstrip() in (subword, f"'{subword}'", "'", '"')


def test_saved_file_is_the_one_that_was_loaded(tmp_path):
    content = b"<pad>_\n\"<EOS>_\"\r\n\n  the_  \n'the_'\n\n"
    path = tmp_path / "mixed.subwords"
    path.write_bytes(content)
    vocabulary = SubwordVocabulary.load(path)
    vocabulary.save(tmp_path / "new folder" / "again.subwords")
    saved = tmp_path / "new folder" / "again.subwords"
    assert saved.read_bytes() == content
    loaded = SubwordVocabulary.load(saved)
    assert len(loaded) == len(vocabulary) == 6
    assert loaded.encode(["the"]) == vocabulary.encode(["the"]) == [[4]]


# === Errors ===


def test_error_when_file_is_missing_or_a_folder(tmp_path):
    for path in (tmp_path / "missing.subwords", tmp_path):
        with pytest.raises(
            InputError, match="No subword vocabulary at"
        ) as raised:
            SubwordVocabulary.load(path)
        assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "Received: an empty file."),
        (b"'<pad>_'\n'\xff_'\n", "line 2: not valid UTF-8"),
        (b"'<pad>_'\n", "Received: '<pad>_'."),
        (b"<unk>\n<s>\n</s>\n", "Received: '<unk>', '<s>'."),
    ],
    ids=["empty", "not_utf_8", "one_line", "other_tool"],
)
def test_error_when_file_is_no_vocabulary(content, message, tmp_path):
    path = tmp_path / "bad.subwords"
    path.write_bytes(content)
    with pytest.raises(InputError) as raised:
        SubwordVocabulary.load(path)
    assert str(path) in str(raised.value)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    "missing, line",
    [
        pytest.param("a", "a", id="letter"),
        pytest.param("\\", "x", id="backslash"),
        pytest.param("7", "\u0007", id="digit_of_an_escape"),
    ],
)
def test_error_when_a_character_has_no_subword(missing, line, tmp_path):
    subwords = SPECIAL + LONG + SINGLE + ESCAPES
    subwords.remove(missing)
    path = tmp_path / "gap.subwords"
    path.write_bytes(file_of(subwords))
    vocabulary = SubwordVocabulary.load(path)
    # What needs it not is no worse for it.
    assert vocabulary.decode(vocabulary.encode(["the 42"])) == ["the 42"]
    with pytest.raises(InputError) as raised:
        vocabulary.encode([line])
    assert str(path) in str(raised.value)
    assert f"no subword that spells {missing!r}" in str(raised.value)
