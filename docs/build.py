"""Builds the HTML reference of the public names: `make docs`."""

import pathlib
import sys
import warnings

import pdoc

import relative_attention as ra


def build(directory):
    """Write `relative_attention.html`, and an `index.html` that leads to it.

    A public module, such as `plot`, gets a page of its own beside it.

    Args:
        directory: path of the folder to fill.

    Raises:
        Warning: whatever there is to warn of, such as a name without an
            object.
    """
    for name in ra.__all__:
        # pdoc documents what a module holds; ours is filled on demand.
        setattr(ra, name, getattr(ra, name))
    # So that these are lists of names, too.
    pdoc.docstrings.GOOGLE_LIST_SECTIONS.append("Call arguments")
    pdoc.render.configure(
        docformat="google",
        footer_text=f"relative-attention {ra.__version__}",
        search=False,
        show_source=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # A function of `plot` and its file share a name: the file gets no page.
        pdoc.pdoc(
            ra.__name__,
            rf"!{ra.__name__}\.\w+\.",
            output_directory=pathlib.Path(directory),
        )


if __name__ == "__main__":
    build(sys.argv[1])
