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


# === Encoding ===


def test_ids_are_line_numbers(vocabulary):
    assert vocabulary.encode(["the cat", "cats"]) == [
        [2, 5, len(vocabulary) - 13],
        [7, len(vocabulary) - 13],
    ]
    assert (vocabulary.padding_id, vocabulary.end_id) == (0, 1)


def test_rows_are_the_same_when_the_cache_is_small(vocabulary, monkeypatch):
    lines = ["the cats, 42", "e_e the cat th", "  the cats \\"] * 3
    monkeypatch.setattr(subword_vocabulary, "_MAX_CACHED_SEGMENTS", 2)
    small = SubwordVocabulary(vocabulary.model)
    assert small.encode(lines) == vocabulary.encode(lines)


# === Round trip ===


@pytest.mark.parametrize(
    "highest",
    [
        pytest.param(0x7F, id="ascii"),
        pytest.param(0x2FF, id="latin"),
        pytest.param(0xFFFF, id="first_plane"),
        pytest.param(sys.maxunicode, id="all_planes"),
    ],
)
def test_random_line_comes_back(highest, vocabulary, rng):
    known = [ord(c) for c in " \\_u;12thecas,é"]
    lines = []
    for length in rng.integers(0, 30, 100):
        points = rng.integers(0, highest + 1, length)
        near = rng.random(length) < 0.5
        points[near] = rng.choice(known, near.sum())
        lines.append("".join(map(chr, points)))
    assert vocabulary.decode(vocabulary.encode(lines)) == lines


# === Decoding ===


@pytest.mark.parametrize(
    "subwords, text",
    [
        pytest.param([*r"\1114112;_"], "\u3013", id="beyond_unicode"),
        pytest.param([*r"\99999999999999999999;_"], "\u3013", id="beyond_int"),
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


def test_ids_outside_the_vocabulary_are_nothing(vocabulary):
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


def test_last_of_equal_subwords_is_used():
    subwords = [*SPECIAL, "the_", "the_", "th"]
    vocabulary = SubwordVocabulary(file_of(subwords))
    assert vocabulary.encode(["the"]) == [[3]]
    assert vocabulary.decode([[2, 3]]) == ["the the"]


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
    "content, message",
    [
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(b"'<pad>_'\n'\xff_'\n", "line 2: not valid UTF-8",
                     id="not_utf_8"),
        pytest.param(b"'<pad>_'\n", "Received: '<pad>_'.", id="one_line"),
        pytest.param(b"the_\n'<pad>_'\n'<EOS>_'\n",
                     "Received: 'the_', '<pad>_'.", id="shifted"),
        pytest.param(b"'<EOS>_'\n'<pad>_'\n",
                     "Received: '<EOS>_', '<pad>_'.", id="exchanged"),
        pytest.param(b"\xef\xbb\xbf'<pad>_'\n'<EOS>_'\n",
                     "Received: \"\\ufeff'<pad>_'\", '<EOS>_'.",
                     id="byte_order_mark"),
        pytest.param(b"<unk>\n<s>\n</s>\n", "Received: '<unk>', '<s>'.",
                     id="other_tool"),
    ],
)  # fmt: skip
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
        pytest.param(" ", "the  the", id="blank"),
        pytest.param("a", "a", id="letter"),
        pytest.param("\\", "x", id="backslash"),
        pytest.param("7", "7", id="digit"),
        pytest.param("7", "\u0007", id="digit_of_an_escape"),
        pytest.param("_", "t", id="underscore"),
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


@pytest.fixture
def info(golden):
    return golden("V_subword_vocabulary").info


@pytest.fixture
def tensor2tensors(info):
    return SubwordVocabulary(info["subwords"].encode())


def test_ids_are_those_of_tensor2tensor(info, tensor2tensors):
    assert len(tensor2tensors) == info["vocabulary_size"]
    lines = [line["text"] for line in info["lines"]]
    assert tensor2tensors.encode(lines) == [
        line["ids"] for line in info["lines"]
    ]


@pytest.mark.parametrize("rows", ["lines", "random_rows"])
def test_text_is_that_of_tensor2tensor(info, tensor2tensors, rows):
    ids = [row["ids"] for row in info[rows]]
    assert tensor2tensors.decode(ids) == [row["decoded"] for row in info[rows]]
