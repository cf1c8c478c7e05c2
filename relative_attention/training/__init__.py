"""What training a Transformer with `model.fit` needs besides Keras."""

from relative_attention.training.callbacks import FiniteGuard
from relative_attention.training.callbacks import ProgressLine
from relative_attention.training.callbacks import StopSignals
from relative_attention.training.checkpoint import RunCheckpoints
from relative_attention.training.checkpoint import average_checkpoints
from relative_attention.training.checkpoint import checkpoint_bytes
from relative_attention.training.checkpoint import load_checkpoint
from relative_attention.training.checkpoint import save_checkpoint
from relative_attention.training.logs import ChartLog
from relative_attention.training.logs import EventLog
from relative_attention.training.logs import Record
from relative_attention.training.logs import relation_tables
from relative_attention.training.logs import write_training_table
from relative_attention.training.losses import MaskedCrossEntropy
from relative_attention.training.metrics import Perplexity
from relative_attention.training.metrics import TokenAccuracy
from relative_attention.training.optimizer import AveragedValidation
from relative_attention.training.optimizer import AveragingAdam
from relative_attention.training.optimizer import averaged_weights
from relative_attention.training.precision import PRECISIONS
from relative_attention.training.precision import choose_precision
from relative_attention.training.schedule import TransformerSchedule

__all__ = [
    "PRECISIONS",
    "AveragedValidation",
    "AveragingAdam",
    "ChartLog",
    "EventLog",
    "FiniteGuard",
    "MaskedCrossEntropy",
    "Perplexity",
    "ProgressLine",
    "Record",
    "RunCheckpoints",
    "StopSignals",
    "TokenAccuracy",
    "TransformerSchedule",
    "average_checkpoints",
    "averaged_weights",
    "checkpoint_bytes",
    "choose_precision",
    "load_checkpoint",
    "relation_tables",
    "save_checkpoint",
    "write_training_table",
]
