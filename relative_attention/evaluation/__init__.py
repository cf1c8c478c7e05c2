"""How good translations are."""

from relative_attention.evaluation.corpus_bleu import Bleu
from relative_attention.evaluation.corpus_bleu import corpus_bleu

__all__ = ["Bleu", "corpus_bleu"]
