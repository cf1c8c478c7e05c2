"""What `model.fit` lacks for training a Transformer."""

from relative_attention.training.average_checkpoints import average_checkpoints
from relative_attention.training.checkpoint import load_checkpoint
from relative_attention.training.checkpoint import save_checkpoint
from relative_attention.training.masked_cross_entropy import MaskedCrossEntropy
from relative_attention.training.perplexity import Perplexity
from relative_attention.training.precision import PRECISIONS
from relative_attention.training.precision import choose_precision
from relative_attention.training.progress_line import ProgressLine
from relative_attention.training.run_keeper import RunKeeper
from relative_attention.training.token_accuracy import TokenAccuracy
from relative_attention.training.transformer_schedule import TransformerSchedule

__all__ = [
    "PRECISIONS",
    "MaskedCrossEntropy",
    "Perplexity",
    "ProgressLine",
    "RunKeeper",
    "TokenAccuracy",
    "TransformerSchedule",
    "average_checkpoints",
    "choose_precision",
    "load_checkpoint",
    "save_checkpoint",
]
