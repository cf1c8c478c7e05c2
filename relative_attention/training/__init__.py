"""What an update is: the step, its loss and metrics, and the optimizer.

`trainable.py` has the base class of models, `update.py` the step from a batch
to new weights. A run of many updates is in `runs`.
"""

from relative_attention.training.losses import MaskedCrossEntropy
from relative_attention.training.metrics import Perplexity
from relative_attention.training.metrics import TokenAccuracy
from relative_attention.training.optimizer import AveragingAdam
from relative_attention.training.optimizer import averaged_weights
from relative_attention.training.schedule import TransformerSchedule
from relative_attention.training.trainable import TrainableModel

__all__ = [
    "AveragingAdam",
    "MaskedCrossEntropy",
    "Perplexity",
    "TokenAccuracy",
    "TrainableModel",
    "TransformerSchedule",
    "averaged_weights",
]
