"""The command `relative-attention`."""

from relative_attention.cli.main import main
from relative_attention.cli.main import parse

__all__ = ["main", "parse"]
