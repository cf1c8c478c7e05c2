"""Turns text into batches of token ids."""

from relative_attention.data.fixed_shape_batches import FixedShapeBatches
from relative_attention.data.length_buckets import length_buckets
from relative_attention.data.lines import ParallelCorpus
from relative_attention.data.subword_vocabulary import SubwordVocabulary
from relative_attention.data.token_batches import TokenBatches
from relative_attention.data.token_corpus import TokenCorpus
from relative_attention.data.token_vocabulary import TokenVocabulary
from relative_attention.data.vocabulary import Vocabulary

__all__ = [
    "FixedShapeBatches",
    "ParallelCorpus",
    "SubwordVocabulary",
    "TokenBatches",
    "TokenCorpus",
    "TokenVocabulary",
    "Vocabulary",
    "length_buckets",
]
