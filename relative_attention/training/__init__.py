"""What `model.fit` lacks for training a Transformer."""

from relative_attention.training.masked_cross_entropy import MaskedCrossEntropy
from relative_attention.training.perplexity import Perplexity
from relative_attention.training.token_accuracy import TokenAccuracy
from relative_attention.training.transformer_schedule import TransformerSchedule

__all__ = [
    "MaskedCrossEntropy",
    "Perplexity",
    "TokenAccuracy",
    "TransformerSchedule",
]
