"""Measures how good translations are."""

from relative_attention.evaluation.bleu_by_length import LengthScore
from relative_attention.evaluation.bleu_by_length import bleu_by_length
from relative_attention.evaluation.bleu_statistics import BleuStatistics
from relative_attention.evaluation.bootstrap_of_means import BootstrapDifference
from relative_attention.evaluation.bootstrap_of_means import bootstrap_of_means
from relative_attention.evaluation.bootstrap_table import bootstrap_table
from relative_attention.evaluation.corpus_bleu import Bleu
from relative_attention.evaluation.corpus_bleu import corpus_bleu
from relative_attention.evaluation.corpus_scores import CorpusScore
from relative_attention.evaluation.corpus_scores import corpus_scores
from relative_attention.evaluation.moses_tokenizer import check_moses
from relative_attention.evaluation.paired_bootstrap import BootstrapResult
from relative_attention.evaluation.paired_bootstrap import check_bootstrap
from relative_attention.evaluation.paired_bootstrap import paired_bootstrap
from relative_attention.evaluation.sentence_scores import sentence_scores

__all__ = [
    "Bleu",
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
