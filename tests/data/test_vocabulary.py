"""SentencePiece vocabularies, of this package and of others."""

import re

import numpy as np
import pytest
import sentencepiece

import relative_attention as ra
from relative_attention import InputError
from relative_attention import Vocabulary
from tests.small_models import trained_model

TEXT = [
    "A man in an orange hat is starring at something.",
    "Ein Mann mit einem orangefarbenen Hut, der etwas anstarrt.",
    "Five people wearing winter jackets stand in the snow.",
    "Fünf Leute in Winterjacken stehen im Schnee.",
] * 3

HARD_LINES = {
    "tab": "one\ttwo\t\tthree",
    "leading_blanks": "   one",
    "only_blanks": "   ",
    "empty": "",
    "combining_accent": "e\u0301 u\u0308 n\u0303",
    "unseen_cjk": "一个男人骑自行车。",
    "emoji": "🙂👩\u200d👩\u200d👧🏽🇩🇪",
    "no_break_space": "10\u00a0000\u202f€ \u00a0",
    "zero_width": "\ufeffone\u200btwo\u00ad",
    "other_line_ends": "one\u2028two\u0085three\x0cfour\x0b\r",
    "ligature_and_wide_forms": "ﬁ ½ ² ｆｕｌｌ Å",
    "looks_special": "<pad> </s> <unk> <s> <0x41> ⁇",
    "beyond_the_first_plane": "𝔘𐍈𠜎\U0010fffd",
    "long_word": "x" * 5000,
}


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary.train(TEXT, 340)


# === Round trip ===


def test_line_comes_back_when_hard(vocabulary):
    lines = list(HARD_LINES.values())
    rows = vocabulary.encode(lines)
    assert vocabulary.decode(rows) == list(map(ra.clean_text, lines))
    assert all(2 < i < len(vocabulary) for row in rows for i in row)


def test_required_characters_have_pieces(vocabulary):
    own = Vocabulary.train(TEXT, 340, required_chars="#é")
    assert all(map(own.has_piece, "#éA"))
    assert not any(map(vocabulary.has_piece, "#é"))
    # Nobody can take the place of a sign, and each character counts once.
    odd = Vocabulary.train(TEXT, 340, required_chars='\x01 ",##e\u0301🙂')
    assert all(map(odd.has_piece, '",#é🙂'))
    assert not odd.has_piece("\x01") and odd.sign_ids


def test_pieces_spell_the_line(vocabulary):
    (row,) = vocabulary.encode(["A man in a hat"])
    pieces = vocabulary.pieces(row)
    assert len(pieces) == len(row)
    assert "".join(pieces).replace("\u2581", " ").strip() == "A man in a hat"


# === Decoding ===


@pytest.mark.parametrize(
    ("form", "texts"),
    [
        (lambda a, b: [[*a, 1, *b, 1], [0, *a[:1], 0, *a[1:], 0]], ["one"] * 2),
        (lambda a, b: [[], [1, *a], [0, 0], b], ["", "", "", "two three"]),
        (lambda a, b: np.array([[*a, 1, 0]], np.uint16), ["one"]),
    ],
    ids=["end_and_padding", "nothing", "array"],
)
def test_decode_stops_at_the_end(form, texts, vocabulary):
    rows = form(*vocabulary.encode(["one", "two three"]))
    assert vocabulary.decode(rows) == texts


# === Files ===


def test_vocabulary_is_the_same_when_loaded(vocabulary, tmp_path):
    vocabulary.save(tmp_path / "new folder" / "vocabulary.model")
    loaded = Vocabulary.load(tmp_path / "new folder" / "vocabulary.model")
    assert loaded.model == vocabulary.model
    assert len(loaded) == len(vocabulary)
    assert loaded.encode(TEXT) == vocabulary.encode(TEXT)


def test_error_when_file_is_missing_or_damaged(vocabulary, tmp_path):
    path = tmp_path / "vocabulary.model"
    for absent in (tmp_path, path):
        with pytest.raises(InputError, match=f"No vocabulary at {absent}"):
            Vocabulary.load(absent)
    for content in (b"", b"no model\n" * 50, vocabulary.model[:-5]):
        path.write_bytes(content)
        with pytest.raises(InputError, match="damaged"):
            Vocabulary.load(path)


def test_error_when_the_model_has_other_ids():
    for model, received in (
        (trained_model(TEXT, **OPTIONS["defaults"]), "-1 and 2"),
        (trained_model(TEXT, **OPTIONS["no_ends"], pad_id=1), "1 and -1"),
    ):
        with pytest.raises(InputError, match="Vocabulary.train") as raised:
            Vocabulary(model)
        assert f"Received: {received}" in str(raised.value)


def test_error_when_the_size_does_not_suit_the_text():
    def error(lines, size):
        with pytest.raises(InputError) as raised:
            Vocabulary.train(lines, size)
        message = str(raised.value)
        start = f"No vocabulary of {size} pieces can be learned from this text:"
        assert message.startswith(start)
        return message

    assert error(["", ""], 300).endswith(": it is empty.")
    message = error(TEXT, 260)
    assert "its characters and the special pieces alone are 2" in message
    least = int(re.search(r"must be at least (\d+)\.$", message)[1])
    assert len(Vocabulary.train(TEXT, least)) == least
    assert f"must be at least {least}." in error(TEXT, least - 1)
    message = error(TEXT, 100_000)
    most = int(re.search(r"it holds at most (\d+)\. Choose", message)[1])
    assert len(Vocabulary.train(TEXT, most)) == most
    assert message.endswith("a smaller `vocabulary.size`, or give more text.")


def test_arguments_of_another_type_are_named():
    with pytest.raises(ValueError, match="`size` must be a positive int"):
        Vocabulary.train(TEXT, 340.0)
    with pytest.raises(TypeError, match="`lines` must be an iterable of str"):
        Vocabulary.train(TEXT[0], 340)
    assert len(Vocabulary.train(TEXT, np.int64(340))) == 340


# === Much text ===


@pytest.fixture
def drawn(monkeypatch):
    """The lines that a vocabulary is learnt from, at most 60."""
    from relative_attention.data import vocabulary

    monkeypatch.setattr(vocabulary, "_MAX_TRAINING_LINES", 60)
    learnt = []
    train = sentencepiece.SentencePieceTrainer.train

    def spy(sentence_iterator, **options):
        learnt[:] = sentence_iterator
        train(sentence_iterator=iter(learnt), **options)

    monkeypatch.setattr(sentencepiece.SentencePieceTrainer, "train", spy)
    return learnt


def numbered(count):
    return (f"{TEXT[n % 4]} {n}" for n in range(count))


def test_lines_are_drawn_evenly_when_they_are_many(drawn):
    count = 6_000
    model = Vocabulary.train(numbered(count), 340).model
    numbers = [int(line.rpartition(" ")[2]) for line in drawn]
    assert len(set(numbers)) == 60
    # Of each quarter of the text 15, give or take 3; of each fourth line too.
    for values in (np.array(numbers) // (count // 4), np.array(numbers) % 4):
        counts = np.bincount(values, minlength=4)
        assert counts.sum() == 60 and counts.min() >= 5
    # The same lines make the same vocabulary.
    first = list(drawn)
    assert Vocabulary.train(numbered(count), 340).model == model
    assert drawn == first


# === SentencePiece models from elsewhere ===

OPTIONS = {
    # What `spm_train` does when nothing else is said.
    "defaults": {"model_type": "unigram", "vocab_size": 80},
    "padding": {"model_type": "bpe", "vocab_size": 60, "pad_id": 3},
    "no_ends": {
        "model_type": "bpe",
        "vocab_size": 60,
        "bos_id": -1,
        "eos_id": -1,
    },
    "user_symbols": {
        "model_type": "bpe",
        "vocab_size": 70,
        "user_defined_symbols": ["<en>", "dogs"],
    },
}


@pytest.mark.parametrize("kind", OPTIONS)
def test_text_is_spelt_with_the_same_pieces(kind, tmp_path):
    model = trained_model(TEXT, **OPTIONS[kind])
    path = tmp_path / "mine.model"
    path.write_bytes(model)
    vocabulary = ra.Vocabulary.from_sentencepiece(path)
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model)
    lines = [*TEXT[:3], "dogs <en> reads", "Zürich"]
    expected = theirs.encode(lines, out_type=str)
    rows = vocabulary.encode(lines)
    unknown = vocabulary.pieces([2])[0]
    for row, pieces in zip(rows, expected):
        known = [
            piece if theirs.piece_to_id(piece) != theirs.unk_id() else unknown
            for piece in pieces
        ]
        assert vocabulary.pieces(row) == known
        assert not {0, 1} & set(row)
    assert vocabulary.decode(rows[:3]) == theirs.decode(
        theirs.encode(lines[:3])
    )
    own = sentencepiece.SentencePieceProcessor(model_proto=vocabulary.model)
    assert (own.pad_id(), own.eos_id(), own.unk_id()) == (0, 1, 2)
    pieces = vocabulary.pieces(range(len(vocabulary)))
    assert len(set(pieces)) == len(pieces)
    # A saved one is read as any other.
    vocabulary.save(tmp_path / "vocabulary.model")
    again = ra.Vocabulary.load(tmp_path / "vocabulary.model")
    assert again.encode(lines) == rows


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "mine.model"
    for content in (b"", b"no model", b"\x0a\x03abc"):
        path.write_bytes(content)
        with pytest.raises(ra.InputError, match="mine.model is not a Sent"):
            ra.Vocabulary.from_sentencepiece(path)
    with pytest.raises(ra.InputError, match="No SentencePiece model at"):
        ra.Vocabulary.from_sentencepiece(tmp_path / "absent")


def test_tokens_are_the_most_frequent():
    vocabulary = ra.TokenVocabulary.train(["b a b", "c\u00a0d  b a", ""], 6)
    assert vocabulary.tokens == ["<blank>", "</s>", "<s>", "b", "a", "<unk>"]
    ids = vocabulary.encode(["a b c\u00a0d"])
    assert ids == [[4, 3, 5]]
    assert vocabulary.decode([[4, 3]]) == ["a b"]
    whole = ra.TokenVocabulary.train(["b a <unk> </s>"], 100)
    assert len(whole) == 6


@pytest.mark.parametrize(("lines", "size"), [(["a"], 4), ([], 9), ([" "], 9)])
def test_tokens_need_a_text_and_room(lines, size):
    with pytest.raises(ra.InputError, match=f"No vocabulary of {size} tokens"):
        ra.TokenVocabulary.train(lines, size)


def test_long_lines_are_learned_from():
    # In SentencePiece, lines of over 4,192 bytes are dropped by default.
    vocabulary = ra.Vocabulary.train(["zebra " * 1000] * 3, 270)
    assert len(vocabulary) == 270
    assert "zebra" in "".join(vocabulary.pieces(range(270)))
