"""tensor2tensor's subwords, id for id."""

import collections
import re
import sys
import tracemalloc
import unicodedata

import numpy as np
import pytest

from relative_attention import InputError
from relative_attention import ParallelCorpus
from relative_attention import SubwordVocabulary
from relative_attention import TokenCorpus
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
def spell(vocabulary):
    """The subwords of a line."""
    return lambda line: vocabulary.pieces(vocabulary.encode([line])[0])


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


@pytest.mark.parametrize(
    "line, subwords",
    [
        pytest.param("", [], id="empty"),
        pytest.param("the", ["the_"], id="whole_word"),
        pytest.param("cats", ["cats", "_"], id="longest_not_fewest"),
        pytest.param("thcats", ["th", "cats", "_"], id="left_to_right"),
        pytest.param("t", ["t", "_"], id="one_character"),
        pytest.param("the the", ["the_"] * 2, id="blank_between_words"),
        pytest.param("the 42", ["the_", "42_"], id="number_is_a_word"),
        pytest.param("e42e", ["e", "4", "2", "e_"], id="number_in_a_word"),
        pytest.param("é é", ["é", "_"] * 2, id="letter_beyond_ascii"),
        pytest.param(" the", [" ", "_", "the_"], id="blank_first"),
        pytest.param("the ", ["the_", " ", "_"], id="blank_last"),
        pytest.param(" ", [" ", "_"], id="blank_alone"),
        pytest.param("the  the", ["the_", " ", " ", "_", "the_"], id="blanks"),
        pytest.param("the, the", ["the_", ", ", "_", "the_"], id="comma"),
        pytest.param("the , ,the", ["the_", " ", ", ", ",", "_", "the_"],
                     id="blank_beside_commas"),
        # "<" and ">" are no letters: the name of an id is no way to it.
        pytest.param("<pad>", [*"<_pad_>_"], id="looks_special"),
    ],
)  # fmt: skip
def test_subwords_of_a_line(line, subwords, spell):
    assert spell(line) == subwords


@pytest.mark.parametrize(
    "character, escaped",
    [
        pytest.param("\\", r"\\_", id="backslash"),
        pytest.param("_", r"\u_", id="underscore"),
        pytest.param(";", ";_", id="semicolon"),
        pytest.param("u", "u_", id="letter_u"),
        pytest.param("\n", r"\10;_", id="line_feed"),
        pytest.param("\r", r"\13;_", id="carriage_return"),
        pytest.param("\0", r"\0;_", id="null"),
        pytest.param("x", r"\120;_", id="letter_outside_the_alphabet"),
        pytest.param("\u20ac", r"\8364;_", id="three_bytes"),
        pytest.param("🙂", r"\128578;_", id="four_bytes"),
        pytest.param("\ud800", r"\55296;_", id="lone_surrogate"),
        pytest.param("\U0010ffff", r"\1114111;_", id="last_code_point"),
    ],
)
def test_escape_of_a_character(character, escaped, vocabulary, spell):
    assert spell(character) == list(escaped)
    assert vocabulary.decode(vocabulary.encode([character])) == [character]


def test_escapes_are_not_mistaken_for_text(vocabulary):
    lines = [r"\u", r"\\u_", r"\120;", r"\_120;\\", "\\", "__", r"a_\u_120;"]
    assert vocabulary.decode(vocabulary.encode(lines)) == lines


@pytest.mark.parametrize(
    "stop",
    [
        pytest.param(0x800, id="alphabets"),
        pytest.param(sys.maxunicode + 1, id="all", marks=pytest.mark.large),
    ],
)
def test_letters_and_numbers_are_those_of_unicode(stop):
    characters = [chr(i) for i in range(stop)]
    is_word = [unicodedata.category(c)[0] in "LN" for c in characters]
    # What the module takes them for, twice.
    assert [c.isalnum() for c in characters] == is_word
    pattern = re.compile(r"[^\W_]")
    assert [pattern.match(c) is not None for c in characters] == is_word


def test_rows_are_the_same_when_the_cache_is_small(vocabulary, monkeypatch):
    lines = ["the cats, 42", "e_e the cat th", "  the cats \\"] * 3
    monkeypatch.setattr(subword_vocabulary, "_MAX_CACHED_SEGMENTS", 2)
    small = SubwordVocabulary(vocabulary.model)
    assert small.encode(lines) == vocabulary.encode(lines)


def test_long_text_without_blanks_is_not_kept(vocabulary):
    tracemalloc.start()
    for number in range(50):
        vocabulary.encode([f"{number}" + "cats" * 5000])
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # One of the lines alone has 20,000 characters.
    assert after < 20_000


def test_row_is_the_caller_s_own(vocabulary):
    (row,) = vocabulary.encode(["cats"])
    row.append(99)
    assert vocabulary.encode(["cats"]) == [row[:-1]]


def test_encode_gives_a_row_a_line_when_there_is_none(vocabulary):
    assert vocabulary.encode([]) == []
    assert vocabulary.encode(["", ""]) == [[], []]


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


@pytest.mark.large
def test_real_lines_come_back(multi30k):
    lines = multi30k("train.de")
    counts = collections.Counter(re.findall(r"\w+", "\n".join(lines)))
    words = [f"{word}_" for word, _ in counts.most_common(2000)]
    stems = [word[:4] for word, _ in counts.most_common(500)]
    characters = {c for word in words for c in word} | {*" .,", *ESCAPES}
    subwords = dict.fromkeys([*SPECIAL, *words, *stems, *characters, *"<>EOS"])
    vocabulary = SubwordVocabulary(file_of(subwords))
    rows = vocabulary.encode(lines)
    assert len(rows) == 29_000
    assert vocabulary.decode(rows) == lines
    assert sum(map(len, rows)) < sum(map(len, lines)) / 2


# === Decoding ===


@pytest.mark.parametrize(
    "subwords, text",
    [
        pytest.param(["th", "e_", "cat", "_"], "the cat", id="other_spelling"),
        pytest.param(["the_", "cat"], "the cat", id="no_underscore_at_the_end"),
        pytest.param(["_", "_", "the_", "_"], "the", id="empty_tokens"),
        # How two tokens begin decides about the blank between them.
        pytest.param(["th", ",", "_", "the_"], "th, the", id="mark_last"),
        pytest.param([",", "th", "_", "the_"], ",ththe", id="mark_first"),
        pytest.param([*r"\1114112;_"], "\u3013", id="beyond_unicode"),
        pytest.param([*r"\99999999999999999999;_"], "\u3013", id="beyond_int"),
        pytest.param(["\\", *"9" * 5000, ";"], "\u3013", id="beyond_python"),
        pytest.param([*r"\0000101;_"], "e", id="leading_zeros"),
        pytest.param([*r"\12_"], r"\12", id="escape_cut_short"),
        pytest.param([*r"\;\t_"], r"\;\t", id="no_escape"),
        pytest.param([*r"\\\u\12_;_"], "\\_\\12;", id="many_escapes"),
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


def test_decode_takes_arrays(vocabulary):
    rows = np.zeros((2, 20), np.int32)
    for number, row in enumerate(vocabulary.encode(["the", "cats, 42"])):
        rows[number, : len(row) + 1] = [*row, 1]
    assert vocabulary.decode(rows) == ["the", "cats, 42"]
    assert vocabulary.decode(rows.astype(np.uint16)) == ["the", "cats, 42"]


def test_ids_outside_the_vocabulary_are_nothing(vocabulary):
    size = len(vocabulary)
    assert vocabulary.decode([[2, size, 2, -1, size + 9]]) == ["the the"]
    assert vocabulary.pieces([size - 1, size, -1, 0]) == ["9", "", "", "<pad>_"]


# === Files ===


@pytest.mark.parametrize("quote", ["'", '"', ""], ids=["one", "two", "none"])
def test_quotes_are_no_part_of_a_subword(quote, vocabulary):
    subwords = vocabulary.pieces(range(len(vocabulary)))
    subwords.remove(", ")
    subwords.remove(" ")
    loaded = SubwordVocabulary(file_of(subwords, quote))
    assert loaded.pieces(range(len(loaded))) == subwords


ODD_LINES = [
    ("''", ""),
    ("", ""),
    ("'", ""),
    ('"', ""),
    ("'''", "'"),
    ("'it's_'", "it's_"),
    ("'a\"", "'a\""),
    ("'a", "'a"),
    ("b'", "b'"),
    ("  c  ", "  c"),
    ("' d '  ", " d "),
    ("e\u00a0\u3000", "e"),
    ("'\u2028'\x1c", "\u2028"),
    ("f\x85g", "f\x85g"),
    ("'h\r'\r", "h"),
    ("i\rj", "ij"),
    ("the_", "the_"),
    ("last", "last"),
]


def test_lines_are_read_as_tensor2tensor_reads_them(tmp_path):
    import tensorflow as tf

    lines = [*SPECIAL, *(line for line, _ in ODD_LINES)]
    path = tmp_path / "odd.subwords"
    # Without a line feed at the end.
    path.write_bytes("\n".join(lines).encode())
    vocabulary = SubwordVocabulary.load(path)
    subwords = vocabulary.pieces(range(len(vocabulary)))
    assert subwords == [*SPECIAL, *(subword for _, subword in ODD_LINES)]
    # Its lines are those of TensorFlow, which alone knows no "\r".
    with tf.io.gfile.GFile(str(path)) as file:
        for line, subword in zip(file, subwords, strict=True):
            assert line.rstrip() in (subword, f"'{subword}'", "'", '"')


def test_last_of_equal_subwords_is_used():
    subwords = [*SPECIAL, "the_", "the_", "th"]
    vocabulary = SubwordVocabulary(file_of(subwords))
    assert vocabulary.encode(["the"]) == [[3]]
    assert vocabulary.decode([[2, 3]]) == ["the the"]


def test_special_ids_may_lack_their_underscore():
    vocabulary = SubwordVocabulary(file_of(["<pad>", "<EOS>", "the_"]))
    assert vocabulary.encode(["the"]) == [[2]]


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


def test_corpus_is_prepared_with_subwords(vocabulary, tmp_path):
    (tmp_path / "source").write_text("the cats\n", "utf-8")
    (tmp_path / "target").write_text("the 42 é\n", "utf-8")
    corpus = TokenCorpus.prepare(
        ParallelCorpus(str(tmp_path / "source"), str(tmp_path / "target")),
        vocabulary,
        vocabulary,
        20,
        tmp_path / "cache",
    )
    assert vocabulary.decode([corpus.source_ids, corpus.target_ids]) == [
        "the cats",
        "the 42 é",
    ]


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
