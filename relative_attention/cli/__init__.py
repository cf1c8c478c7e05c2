"""The command `relative-attention`."""

from relative_attention.cli.main import main

__all__ = ["main"]
