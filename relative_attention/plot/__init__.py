"""Pictures of what a model has learnt; they need `matplotlib`."""

from relative_attention.plot.model_picture import model_picture
from relative_attention.plot.training_curve import training_curve

__all__ = ["model_picture", "training_curve"]
