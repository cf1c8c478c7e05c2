"""Makes and writes figures without a screen."""

import functools
import io
import warnings
from typing import TYPE_CHECKING
from typing import Any

from relative_attention.errors import check_packages
from relative_attention.files import AnyPath
from relative_attention.files import atomic_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def make_figure(
    size: tuple[float, float], layout: str = "constrained"
) -> "Figure":
    """Returns a matplotlib `Figure` of this width and height, in inches."""
    check_matplotlib()
    # This class does not change pyplot's state and backend.
    from matplotlib.figure import Figure

    # matplotlib's type stubs do not know the layout "none".
    options: dict[str, Any] = {"figsize": size, "layout": layout}
    figure: Any = Figure(**options)
    # A notebook only draws a Figure once pyplot has been imported.
    figure._repr_png_ = functools.partial(figure_png, figure)
    return figure


def check_matplotlib() -> None:
    """Raises `InputError` if `matplotlib` is not installed."""
    check_packages("Pictures need `matplotlib`", "plot", "matplotlib.figure")


def save_figure(figure: "Figure", path: AnyPath) -> None:
    """Writes a figure as PNG, whole or not at all."""
    with atomic_file(path) as file:
        file.write(_png(figure, dpi=110))


def figure_png(figure: "Figure") -> bytes:
    """Returns a figure as the bytes of a PNG file."""
    # Fast rather than small: training and notebooks wait for it.
    return _png(figure, dpi=80, pil_kwargs={"compress_level": 1})


def _png(figure: "Figure", **options: Any) -> bytes:
    file = io.BytesIO()
    with warnings.catch_warnings():
        # Tokens in a script that the font lacks are drawn as boxes. A warning
        # for each of them would hide all other output.
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure.savefig(file, format="png", **options)
    return file.getvalue()
