"""From a trained model to translations."""

from relative_attention.decoding.beam_search import beam_search
from relative_attention.decoding.sample import sample
from relative_attention.decoding.score_translations import TranslationScore
from relative_attention.decoding.score_translations import corpus_perplexity
from relative_attention.decoding.score_translations import score_translations
from relative_attention.decoding.translation import Translation
from relative_attention.decoding.translator import Translator

__all__ = [
    "Translation",
    "TranslationScore",
    "Translator",
    "beam_search",
    "corpus_perplexity",
    "sample",
    "score_translations",
]
