"""A font that has what equations need, as part of the site.

Without one, browsers draw sums and brackets no larger than letters, and few
systems come with one. It is STIX Two Math (SIL Open Font License), which
`ziamath` brings, less the characters that no page needs.
"""

import importlib.resources
import pathlib

from fontTools import subset
from sphinx.application import Sphinx

NAME = "STIXTwoMath-Regular"
# First and last of each range: Latin and Greek upright and italic, blackboard
# letters, accents, arrows, operators, brackets.
_RANGES = (
    (0x20, 0x7E),
    (0xA0, 0xFF),
    (0x300, 0x36F),
    (0x391, 0x3F5),
    (0x2010, 0x2064),
    (0x20D0, 0x20EF),
    (0x2100, 0x22FF),
    (0x2308, 0x230B),
    (0x23B4, 0x23E1),
    (0x27E6, 0x27EF),
    (0x1D400, 0x1D467),
    (0x1D538, 0x1D56B),
    (0x1D6A4, 0x1D6E1),
)


def write_font(app: Sphinx, error: Exception | None) -> None:
    """Writes the font beside the style sheet that names it."""
    path = pathlib.Path(app.outdir, "_static", f"{NAME}.woff")
    if error is not None or app.builder.format != "html" or path.exists():
        return
    options = subset.Options(flavor="woff", layout_features=["*"])
    files = importlib.resources.files("ziamath")
    with importlib.resources.as_file(files / "fonts" / f"{NAME}.ttf") as file:
        font = subset.load_font(str(file), options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(
        unicodes=[
            character
            for first, last in _RANGES
            for character in range(first, last + 1)
        ]
    )
    subsetter.subset(font)
    subset.save_font(font, str(path), options)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", write_font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
