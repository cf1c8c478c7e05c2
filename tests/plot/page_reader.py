"""Reads the page of an attention view as a browser would, without one."""

import base64
import html.parser
import json

import numpy as np


class Page(html.parser.HTMLParser):
    """Elements of a page in their order, and the text of its scripts.

    Attributes:
        elements: list of pairs of a tag and a dict of its attributes.
        texts: dict of lists: what stands in each `script` and `style`.
    """

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.texts = {"script": [], "style": []}
        self._inside = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag in self.texts:
            self._inside = tag
            self.texts[tag].append("")

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside:
            self.texts[self._inside][-1] += data

    @property
    def data(self):
        return json.loads(self.texts["script"][0])


def unpacked(packed):
    """The numbers of a packed array."""
    integers = np.frombuffer(base64.b64decode(packed["data"]), "<i2")
    return integers.reshape(packed["shape"]) * packed["scale"]
