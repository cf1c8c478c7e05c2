"""Figures that need no screen."""

from relative_attention.atomic_files import atomic_file
from relative_attention.errors import InputError


def make_figure(size):
    """A matplotlib `Figure` of this size, in inches.

    Raises:
        InputError: if `matplotlib` is not installed.
    """
    # A Figure of its own leaves pyplot's state and backend alone.
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(
            "Pictures need `matplotlib`. Install it with "
            "`pip install 'relative-attention[plot]'`."
        ) from error
    return Figure(figsize=size, layout="constrained")


def save_figure(figure, path):
    """Write a figure as PNG, whole or not at all."""
    with atomic_file(path) as file:
        figure.savefig(file, format="png", dpi=110)
