"""A vocabulary of tensor2tensor's gives tensor2tensor's ids and text."""

import pytest

from relative_attention import SubwordVocabulary


@pytest.fixture
def info(golden):
    return golden("V_subword_vocabulary").info


@pytest.fixture
def vocabulary(info):
    return SubwordVocabulary(info["subwords"].encode())


def test_ids_of_lines(info, vocabulary):
    assert len(vocabulary) == info["vocabulary_size"]
    lines = [line["text"] for line in info["lines"]]
    assert vocabulary.encode(lines) == [line["ids"] for line in info["lines"]]


@pytest.mark.parametrize("rows", ["lines", "random_rows"])
def test_text_of_ids(info, vocabulary, rows):
    ids = [row["ids"] for row in info[rows]]
    assert vocabulary.decode(ids) == [row["decoded"] for row in info[rows]]
