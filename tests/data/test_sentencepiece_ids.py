"""SentencePiece models of one's own: other ids, the same pieces."""

import io

import pytest
import sentencepiece

import relative_attention as ra

TEXT = [
    "A man rides a bike.",
    "Two dogs run along the beach.",
    "A woman reads a book in the park.",
] * 20
OPTIONS = {
    # What `spm_train` does when nothing else is said.
    "defaults": {"model_type": "unigram", "vocab_size": 60},
    "bpe": {"model_type": "bpe", "vocab_size": 60},
    "padding": {"model_type": "bpe", "vocab_size": 60, "pad_id": 3},
    "no_ends": {
        "model_type": "bpe",
        "vocab_size": 60,
        "bos_id": -1,
        "eos_id": -1,
    },
    "bytes": {"model_type": "bpe", "vocab_size": 340, "byte_fallback": True},
    "user_symbols": {
        "model_type": "bpe",
        "vocab_size": 70,
        "user_defined_symbols": ["<en>", "dogs"],
    },
}


def train(**options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT),
        model_writer=model,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


@pytest.mark.parametrize("kind", OPTIONS)
def test_text_is_spelt_with_the_same_pieces(kind, tmp_path):
    model = train(**OPTIONS[kind])
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


def test_vocabulary_of_this_package_stays_as_it_is(tmp_path):
    vocabulary = ra.Vocabulary.train(TEXT, 300)
    vocabulary.save(tmp_path / "mine.model")
    again = ra.Vocabulary.from_sentencepiece(tmp_path / "mine.model")
    ids = range(len(vocabulary))
    assert again.pieces(ids) == vocabulary.pieces(ids)


@pytest.mark.parametrize(
    "content", [b"", b"no model", b"\x0a\x03abc"], ids=["empty", "text", "cut"]
)
def test_other_files_are_refused(content, tmp_path):
    path = tmp_path / "mine.model"
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
