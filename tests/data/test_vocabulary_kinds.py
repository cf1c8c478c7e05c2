"""Each kind of vocabulary has its suffix."""

from relative_attention.data import TokenVocabulary
from relative_attention.data.vocabulary_kinds import VOCABULARY_KINDS
from relative_attention.data.vocabulary_kinds import vocabulary_suffix


def test_suffix_and_kind_name_each_other():
    tokens = TokenVocabulary(["<blank>", "</s>", "<s>", "a", "<unk>"])
    suffix = vocabulary_suffix(tokens)
    assert suffix == ".tokens"
    assert VOCABULARY_KINDS[suffix] is TokenVocabulary
    assert list(VOCABULARY_KINDS) == [".model", ".subwords", ".tokens"]
