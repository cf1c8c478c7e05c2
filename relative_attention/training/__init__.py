"""What training a Transformer with `model.fit` needs besides Keras."""

from relative_attention.training.checkpoint import average_checkpoints
from relative_attention.training.logs import relation_tables
from relative_attention.training.losses import MaskedCrossEntropy
from relative_attention.training.metrics import Perplexity
from relative_attention.training.metrics import TokenAccuracy
from relative_attention.training.optimizer import AveragingAdam
from relative_attention.training.optimizer import averaged_weights
from relative_attention.training.schedule import TransformerSchedule

__all__ = [
    "AveragingAdam",
    "MaskedCrossEntropy",
    "Perplexity",
    "TokenAccuracy",
    "TransformerSchedule",
    "average_checkpoints",
    "averaged_weights",
    "relation_tables",
]
