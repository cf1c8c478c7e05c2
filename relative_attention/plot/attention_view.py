"""The attention of one translation as a page to point at and click in."""

import base64
import functools
import hashlib
import html
import importlib.resources
import json
import re
from typing import TYPE_CHECKING
from typing import Any

from relative_attention.decoding.translation import check_attention
from relative_attention.files import AnyPath
from relative_attention.files import atomic_file
from relative_attention.plot.view_data import view_data

if TYPE_CHECKING:
    from relative_attention.decoding import Translator

# In the order in which they run.
_SCRIPTS = (
    *("numbers", "choice", "elements", "heads", "tokens", "lines"),
    *("details", "distance", "start"),
)
# Of the frame in a notebook, in pixels.
_HEIGHT = 900


class AttentionView:
    """A page that shows what each head of a model attends to, and why.

    In a notebook the last line of a cell shows it.

    Args:
        data: dict, what `view_data` returns.

    Attributes:
        sentence: string.
        translation: string.
        data: dict. The numbers that the page shows.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    @property
    def sentence(self) -> str:
        """The sentence that is translated."""
        return self.data["sentence"]

    @property
    def translation(self) -> str:
        """Its translation."""
        return self.data["translation"]

    def to_html(self) -> str:
        """Returns the page: one file that loads nothing else.

        Its Content-Security-Policy allows its own script and style alone,
        and no connection.
        """
        # In ASCII, whatever the sentence.
        data = json.dumps(self.data, separators=(",", ":"))
        parts = {
            "policy": content_security_policy(),
            "style": _style(),
            "script": _script(),
            # In a script, "<" could begin its end; as an escape it cannot.
            "data": data.replace("<", "\\u003c"),
        }
        # At once, so that no part is looked through for the name of another.
        return re.sub(
            r"\{\{(\w+)\}\}",
            lambda m: parts[m[1]],
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
        # A frame of its own: neither page's style nor script meets the other.
        return (
            f'<iframe srcdoc="{html.escape(self.to_html())}" '
            'sandbox="allow-scripts" title="Attention view" '
            f'width="100%" height="{_HEIGHT}" style="border: 0"></iframe>'
        )


def attention_view(
    translator: "Translator", sentence: str, translation: str | None = None
) -> AttentionView:
    """Shows what each head attends to in one sentence, and why.

    For the token under the pointer: how much of each logit is content
    (`q k`) and how much position (`q a^K`, eq. 4 of Shaw et al. 2018, or a
    bias); how much of the output came through values and how much through
    `a^V` (eq. 3); and where in the head's relation tables it lies. Rotary
    positions are in queries and keys: there a logit is shown as a whole.

    Args:
        translator: `Translator`.
        sentence: string. The sentence that is translated.
        translation: string. Its translation. Defaults to `None`, the one that
            `translator` finds.

    Returns:
        `AttentionView`: a notebook shows it, `save(path)` writes it.

    Raises:
        InputError: if the model is an `Ensemble`, which has no attention of
            its own, the sentence too long for a page, or what the model
            computes not finite.
        TypeError: if the sentence or its translation is not a string.

    Example:
    >>> translator = ra.load_translator("multi30k_en_de_tiny_relative")
    >>> ra.plot.attention_view(translator, "A dog runs.").save("view.html")

    Reference:
     - [Shaw et al., 2018](https://arxiv.org/abs/1803.02155), eqs. 3 and 4
    """
    check_attention(translator.model)
    for name, text in (("sentence", sentence), ("translation", translation)):
        is_left_out = name == "translation" and text is None
        if not isinstance(text, str) and not is_left_out:
            raise TypeError(
                f"`{name}` must be a string. Received: {name}={text!r}."
            )
    return AttentionView(view_data(translator, sentence, translation))


@functools.cache
def content_security_policy() -> str:
    """Returns the policy of the page, for a server that sends it as a header.

    Nothing is loaded and nothing sent; the only script and the only style are
    those whose digests are here.
    """
    script, style = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (_script(), _style())
    )
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        "img-src data:; "
        f"script-src 'sha256-{script}'; style-src 'sha256-{style}'"
    )


def _style() -> str:
    return _file("attention_view.css")


@functools.cache
def _script() -> str:
    """Returns the files of the script as one, with no name left outside."""
    files = "\n".join(_file(f"{name}.js") for name in _SCRIPTS)
    return f'"use strict";\n{{\n{files}}}\n'


@functools.cache
def _file(name: str) -> str:
    """Returns a part of the page, a file that comes with this package."""
    folder = importlib.resources.files("relative_attention.plot")
    return (folder / "page" / name).read_text("utf-8")
