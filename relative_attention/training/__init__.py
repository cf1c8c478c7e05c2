"""Provides what `model.fit` lacks for training a Transformer."""

from relative_attention.training.average_checkpoints import average_checkpoints
from relative_attention.training.averaged_weights import AveragedValidation
from relative_attention.training.averaged_weights import averaged_weights
from relative_attention.training.averaging_adam import AveragingAdam
from relative_attention.training.chart_log import ChartLog
from relative_attention.training.checkpoint import checkpoint_bytes
from relative_attention.training.checkpoint import load_checkpoint
from relative_attention.training.checkpoint import save_checkpoint
from relative_attention.training.epoch_logs import EpochLogs
from relative_attention.training.event_log import EventLog
from relative_attention.training.finite_guard import FiniteGuard
from relative_attention.training.masked_cross_entropy import MaskedCrossEntropy
from relative_attention.training.perplexity import Perplexity
from relative_attention.training.precision import PRECISIONS
from relative_attention.training.precision import choose_precision
from relative_attention.training.progress_line import ProgressLine
from relative_attention.training.relation_tables import relation_tables
from relative_attention.training.run_checkpoints import RunCheckpoints
from relative_attention.training.stop_signals import StopSignals
from relative_attention.training.token_accuracy import TokenAccuracy
from relative_attention.training.training_table import TRAINING_TABLE
from relative_attention.training.training_table import read_training_table
from relative_attention.training.training_table import write_training_table
from relative_attention.training.transformer_schedule import TransformerSchedule

__all__ = [
    "PRECISIONS",
    "AveragedValidation",
    "AveragingAdam",
    "TRAINING_TABLE",
    "ChartLog",
    "EpochLogs",
    "EventLog",
    "FiniteGuard",
    "MaskedCrossEntropy",
    "Perplexity",
    "ProgressLine",
    "RunCheckpoints",
    "StopSignals",
    "TokenAccuracy",
    "TransformerSchedule",
    "average_checkpoints",
    "averaged_weights",
    "checkpoint_bytes",
    "choose_precision",
    "load_checkpoint",
    "read_training_table",
    "relation_tables",
    "save_checkpoint",
    "write_training_table",
]
