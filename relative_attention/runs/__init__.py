"""Training runs, from recipe to results.

A run makes many updates, each as `training` says, and is told by its recipe
(`recipes`) what to train on and how. `run.py` is the way through it.
"""

from relative_attention.runs.checkpoint import average_checkpoints
from relative_attention.runs.distill import distill
from relative_attention.runs.run import train
from relative_attention.runs.run_directory import check_resume

__all__ = ["average_checkpoints", "check_resume", "distill", "train"]
