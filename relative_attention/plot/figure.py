"""Makes and writes figures that need no screen."""

import contextlib
import functools
import io
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING
from typing import Any

from relative_attention.errors import InputError
from relative_attention.errors import install_hint
from relative_attention.files import AnyPath
from relative_attention.files import atomic_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def make_figure(
    size: tuple[float, float],
    layout: str = "constrained",
) -> "Figure":
    """Returns a matplotlib `Figure` of this width and height, in inches.

    Raises:
        InputError: if `matplotlib` is not installed.
    """
    check_matplotlib()
    # A Figure of its own leaves pyplot's state and backend alone.
    from matplotlib.figure import Figure

    # The checkers' stubs of matplotlib do not know the layout "none".
    options: dict[str, Any] = {"figsize": size, "layout": layout}
    figure: Any = Figure(**options)
    # A notebook draws Figures only once pyplot has been imported.
    figure._repr_png_ = functools.partial(figure_png, figure)
    return figure


def check_matplotlib() -> None:
    """Refuses to begin where no picture can be drawn.

    Raises:
        InputError: if `matplotlib` is not installed.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise InputError(
            "Pictures need `matplotlib`. Install it with "
            f"{install_hint('plot')}."
        ) from error


def save_figure(figure: "Figure", path: AnyPath) -> None:
    """Writes a figure as PNG, whole or not at all."""
    with atomic_file(path) as file, _without_glyph_warnings():
        figure.savefig(file, format="png", dpi=110)


def figure_png(figure: "Figure") -> bytes:
    """Returns a figure as the bytes of a PNG file."""
    file = io.BytesIO()
    with _without_glyph_warnings():
        # Quick rather than small.
        figure.savefig(
            file, format="png", dpi=80, pil_kwargs={"compress_level": 1}
        )
    return file.getvalue()


@contextlib.contextmanager
def _without_glyph_warnings() -> Iterator[None]:
    """Keeps matplotlib from warning of characters that its font lacks."""
    # A token in a script that the font lacks is drawn as a box; a warning for
    # each, at each picture, would bury all else.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        yield
