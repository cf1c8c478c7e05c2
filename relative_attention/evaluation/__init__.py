"""Measures the quality of translations.

`scores.py` scores texts and sentences with sacreBLEU. `significance.py` tests
whether the difference between two scores is more than chance.
"""

from relative_attention.evaluation.scores import LengthScore
from relative_attention.evaluation.scores import bleu_by_length
from relative_attention.evaluation.scores import corpus_bleu
from relative_attention.evaluation.scores import corpus_scores
from relative_attention.evaluation.scores import sentence_scores
from relative_attention.evaluation.significance import paired_bootstrap

__all__ = [
    "LengthScore",
    "bleu_by_length",
    "corpus_bleu",
    "corpus_scores",
    "paired_bootstrap",
    "sentence_scores",
]
