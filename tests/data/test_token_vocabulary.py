"""OpenNMT-tf's vocabularies: text to ids and back."""

import pytest
import sentencepiece

from relative_attention import InputError
from relative_attention import TokenVocabulary
from tests.small_models import trained_model

LINES = ["<blank>", "<s>", "</s>", "a", "b", "a\u00a0b"]


@pytest.fixture
def file(tmp_path):
    """`file(lines)` writes a vocabulary file."""

    def write(lines, name="en.vocab"):
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    return write


@pytest.fixture(scope="module")
def sentencepiece_model():
    lines = ["a man rides a bike", "a bike and a man"] * 9
    return trained_model(lines, vocab_size=20)


def test_ids_are_in_the_order_of_the_package(file):
    vocabulary = TokenVocabulary.from_opennmt_tf(file(LINES))
    assert vocabulary.tokens == [
        *("<blank>", "</s>", "<s>", "a", "b", "a\u00a0b", "<unk>")
    ]
    assert len(vocabulary) == 7
    assert (vocabulary.padding_id, vocabulary.end_id) == (0, 1)


def test_lines_are_cut_at_ascii_blanks_alone(file):
    vocabulary = TokenVocabulary.from_opennmt_tf(file(LINES))
    assert vocabulary.encode(["b  a\tc ", "", "a\u00a0b </s> <s>"]) == [
        [4, 3, 6],
        [],
        [5, 1, 2],
    ]
    # What pads a batch is not to be had by writing it.
    assert vocabulary.encode(["<blank> a"]) == [[6, 3]]


def test_decode_stops_at_the_end_of_sentence(file):
    vocabulary = TokenVocabulary.from_opennmt_tf(file(LINES))
    rows = [[3, 0, 6, 1, 4], [1], [4, 5]]
    assert vocabulary.decode(rows) == ["a <unk>", "", "b a\u00a0b"]


def test_source_may_have_a_start_and_no_end(file):
    path = file(LINES)
    plain = TokenVocabulary.from_opennmt_tf(path, end=False)
    assert plain.end_id == plain.padding_id == 0
    assert plain.encode(["a b"]) == [[3, 4]]
    marked = TokenVocabulary.from_opennmt_tf(path, start=True)
    assert marked.end_id == 1
    assert marked.encode(["a b"]) == [[2, 3, 4]]


def test_source_needs_no_tokens_that_it_does_not_use(file):
    path = file(["<blank>", "a", "b", "c"])
    vocabulary = TokenVocabulary.from_opennmt_tf(path, end=False)
    # The rows of the embedding change places all the same.
    assert vocabulary.encode(["a b c d"]) == [[2, 1, 3, 4]]
    for controls in ({"end": True}, {"end": False, "start": True}):
        with pytest.raises(InputError, match="</s>, <s> at the ids 0 to 2"):
            TokenVocabulary.from_opennmt_tf(path, **controls)


def test_equal_lines_are_one_token_and_unknown_may_be_one(file):
    path = file([*LINES, "b", "<unk>", "c"])
    vocabulary = TokenVocabulary.from_opennmt_tf(path)
    added = ["<unk>", "c", "<unk>"]
    assert vocabulary.tokens[4:] == ["b", "a\u00a0b", *added]
    assert vocabulary.encode(["b <unk> d"]) == [[4, 6, 8]]


def test_file_of_sentencepiece_has_the_special_tokens_added(file):
    lines = ["<unk>\t0", "<s>\t0", "</s>\t0", "▁a\t-1.5", "b\t-2"]
    vocabulary = TokenVocabulary.from_opennmt_tf(file(lines))
    assert vocabulary.tokens == [
        *("<blank>", "</s>", "<s>", "▁a", "b", "<unk>")
    ]


def test_sentencepiece_model_cuts_and_joins(
    file, sentencepiece_model, tmp_path
):
    processor = sentencepiece.SentencePieceProcessor(
        model_proto=sentencepiece_model
    )
    pieces = [processor.id_to_piece(i) for i in range(3, len(processor))]
    tokenizer = tmp_path / "en.model"
    tokenizer.write_bytes(sentencepiece_model)
    vocabulary = TokenVocabulary.from_opennmt_tf(
        file([*LINES[:3], *pieces]), tokenizer=tokenizer
    )
    line = "a man rides a bike"
    (ids,) = vocabulary.encode([line])
    assert vocabulary.pieces(ids) == processor.encode(line, out_type=str)
    assert vocabulary.decode([ids, [1]]) == [line, ""]


@pytest.mark.parametrize("with_tokenizer", [False, True])
def test_saved_vocabulary_is_the_same(
    file, sentencepiece_model, tmp_path, with_tokenizer
):
    vocabulary = TokenVocabulary(
        ["<blank>", "</s>", "<s>", "▁a", "▁man", "é\u2028", "<unk>"],
        tokenizer=sentencepiece_model if with_tokenizer else None,
        start=True,
        end=False,
    )
    vocabulary.save(tmp_path / "v.tokens")
    loaded = TokenVocabulary.load(tmp_path / "v.tokens")
    assert loaded.tokens == vocabulary.tokens
    assert loaded.encode(["a man", "▁a"]) == vocabulary.encode(["a man", "▁a"])
    assert (loaded.start, loaded.end_id) == (True, 0)
    assert loaded.tokenizer == vocabulary.tokenizer


def test_missing_or_damaged_file_is_an_error(file, tmp_path):
    for lines, message in (
        (["<blank>", "a"], "at least two"),
        (["<s>", "</s>", "a"], "first line.*'<blank>'.*Received: '<s>'"),
    ):
        with pytest.raises(InputError, match=message) as error:
            TokenVocabulary.from_opennmt_tf(file(lines))
        assert "en.vocab" in str(error.value)
    with pytest.raises(InputError, match="no.vocab"):
        TokenVocabulary.from_opennmt_tf(tmp_path / "no.vocab")
    with pytest.raises(InputError, match="No SentencePiece model at .*no.mod"):
        TokenVocabulary.from_opennmt_tf(
            file(LINES), tokenizer=tmp_path / "no.model"
        )
    with pytest.raises(InputError, match="not a SentencePiece model"):
        TokenVocabulary.from_opennmt_tf(file(LINES), tokenizer=file(LINES))


def test_invalid_saved_vocabulary_is_refused(tmp_path):
    path = tmp_path / "v.tokens"
    with pytest.raises(InputError, match="No vocabulary at .*v.tokens"):
        TokenVocabulary.load(path)
    path.write_text('{"tokenizer": null, "tokens": ["<blank>", "<unk>"]}')
    with pytest.raises(InputError, match="v.tokens"):
        TokenVocabulary.load(path)
