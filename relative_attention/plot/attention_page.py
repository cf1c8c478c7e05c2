"""The attention of one translation as a page to explore in a browser.

The page is one HTML file with its data, its style and its script, which are in
`page/`. Nothing here needs Keras.
"""

import base64
import functools
import hashlib
import html
import importlib.resources
import json
import re
from typing import Any

from relative_attention.files import AnyPath
from relative_attention.files import atomic_file

# Height of the frame in a notebook, in pixels.
_HEIGHT = 900


class AttentionView:
    """A page that shows what each head of a model attends to, and why.

    In a notebook, it is shown if it is the last line of a cell.

    Attributes:
        sentence: string.
        translation: string.
        data: dict. The numbers that the page shows.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.sentence: str = data["sentence"]
        self.translation: str = data["translation"]

    def to_html(self) -> str:
        """Returns the page: one file that loads nothing else.

        Its Content-Security-Policy allows only its own script and style, and
        no connection.
        """
        # In ASCII, for any sentence.
        data = json.dumps(self.data, separators=(",", ":"))
        parts = {
            "policy": content_security_policy(),
            "style": _file("attention_view.css"),
            "script": _file("attention_view.js"),
            # A "<" could begin the end of the script element.
            "data": data.replace("<", "\\u003c"),
        }
        # In one pass, so that no placeholder is found inside a part.
        return re.sub(
            r"\{\{(\w+)\}\}",
            lambda match: parts[match[1]],
            _file("attention_view.html"),
        )

    def save(self, path: AnyPath) -> None:
        """Writes the page, whole or not at all.

        Args:
            path: path of the HTML file.
        """
        with atomic_file(path) as file:
            file.write(self.to_html().encode("utf-8"))

    def _repr_html_(self) -> str:
        # A frame keeps the styles and scripts of both pages apart.
        return (
            f'<iframe srcdoc="{html.escape(self.to_html())}" '
            'sandbox="allow-scripts" title="Attention view" '
            f'width="100%" height="{_HEIGHT}" style="border: 0"></iframe>'
        )


@functools.cache
def content_security_policy() -> str:
    """Returns the policy of the page, for a server that sends it as a header.

    It only allows the script and the style with these digests, and no loading
    or sending of anything else.
    """
    script, style = (
        base64.b64encode(hashlib.sha256(_file(name).encode()).digest()).decode()
        for name in ("attention_view.js", "attention_view.css")
    )
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        "img-src data:; "
        f"script-src 'sha256-{script}'; style-src 'sha256-{style}'"
    )


@functools.cache
def _file(name: str) -> str:
    folder = importlib.resources.files("relative_attention.plot")
    return (folder / "page" / name).read_text("utf-8")
