"""Measures the quality of translations.

`corpus` scores texts and sentences with sacreBLEU. `significance` tests whether
the difference between two scores is more than chance.
"""

from relative_attention.evaluation.corpus import CorpusScore
from relative_attention.evaluation.corpus import LengthScore
from relative_attention.evaluation.corpus import bleu_by_length
from relative_attention.evaluation.corpus import check_moses
from relative_attention.evaluation.corpus import corpus_bleu
from relative_attention.evaluation.corpus import corpus_scores
from relative_attention.evaluation.corpus import sentence_scores
from relative_attention.evaluation.significance import BleuStatistics
from relative_attention.evaluation.significance import BootstrapDifference
from relative_attention.evaluation.significance import BootstrapResult
from relative_attention.evaluation.significance import bootstrap_of_means
from relative_attention.evaluation.significance import bootstrap_table
from relative_attention.evaluation.significance import check_bootstrap
from relative_attention.evaluation.significance import paired_bootstrap

__all__ = [
    "BleuStatistics",
    "BootstrapDifference",
    "BootstrapResult",
    "CorpusScore",
    "LengthScore",
    "bleu_by_length",
    "bootstrap_of_means",
    "bootstrap_table",
    "check_bootstrap",
    "check_moses",
    "corpus_bleu",
    "corpus_scores",
    "paired_bootstrap",
    "sentence_scores",
]
