"""Pictures of what a model has learnt; they need `matplotlib`."""

from relative_attention.plot.model_picture import model_picture

__all__ = ["model_picture"]
