"""Kinds of vocabularies, and which are the same."""

import pytest

import relative_attention as ra
from relative_attention.data.vocabulary_kinds import is_same_vocabulary

LINES = ["a man rides a red bike", "two old dogs run by the street"]


@pytest.fixture(scope="module")
def learnt():
    return ra.Vocabulary.train(LINES, 285)


def test_vocabulary_equality_ignores_the_file(learnt, tmp_path):
    path = tmp_path / "vocabulary.model"
    learnt.save(path)
    assert is_same_vocabulary(learnt, learnt)
    assert is_same_vocabulary(learnt, ra.Vocabulary.load(path))
    # As a recipe takes it, by `vocabulary.model`.
    again = ra.Vocabulary.from_sentencepiece(path)
    assert is_same_vocabulary(learnt, again)
    assert is_same_vocabulary(again, learnt)
    assert again.encode(LINES) == learnt.encode(LINES)
    # Their size alone makes no two vocabularies the same.
    other = ra.Vocabulary.train([line[::-1] for line in LINES], 285)
    assert len(other) == len(learnt)
    assert not is_same_vocabulary(learnt, other)
    texts = ("a b c", "a b d")
    tokens = [ra.TokenVocabulary.train([text], 9) for text in texts]
    assert not is_same_vocabulary(*tokens)
    assert not is_same_vocabulary(tokens[0], learnt)
