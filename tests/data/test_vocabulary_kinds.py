"""Kinds of vocabularies, and which are the same."""

import pytest

import relative_attention as ra
from relative_attention.data import TokenVocabulary
from relative_attention.data.vocabulary_kinds import VOCABULARY_KINDS
from relative_attention.data.vocabulary_kinds import is_same_vocabulary
from relative_attention.data.vocabulary_kinds import vocabulary_suffix


def test_suffix_and_kind_name_each_other():
    tokens = TokenVocabulary(["<blank>", "</s>", "<s>", "a", "<unk>"])
    suffix = vocabulary_suffix(tokens)
    assert suffix == ".tokens"
    assert VOCABULARY_KINDS[suffix] is TokenVocabulary
    assert list(VOCABULARY_KINDS) == [".model", ".subwords", ".tokens"]


LINES = ["a man rides a red bike", "two old dogs run by the street"]


@pytest.fixture(scope="module")
def learnt():
    return ra.Vocabulary.train(LINES, 285)


def test_vocabulary_is_the_same_whoever_wrote_its_file(learnt, tmp_path):
    path = tmp_path / "vocabulary.model"
    learnt.save(path)
    assert is_same_vocabulary(learnt, learnt)
    assert is_same_vocabulary(learnt, ra.Vocabulary.load(path))
    # As a recipe takes it, by `vocabulary.model`.
    again = ra.Vocabulary.from_sentencepiece(path)
    assert is_same_vocabulary(learnt, again)
    assert is_same_vocabulary(again, learnt)
    assert again.encode(LINES) == learnt.encode(LINES)


def test_size_alone_makes_no_vocabulary_the_same(learnt):
    other = ra.Vocabulary.train([line[::-1] for line in LINES], 285)
    assert len(other) == len(learnt)
    assert not is_same_vocabulary(learnt, other)
    one, two = (
        ra.TokenVocabulary.train([text], 9) for text in ("a b c", "a b d")
    )
    assert len(one) == len(two)
    assert not is_same_vocabulary(one, two)
    assert is_same_vocabulary(one, ra.TokenVocabulary.train(["a b c"], 9))
    assert not is_same_vocabulary(one, learnt)
