"""Draws the picture of `docs/guides/attention_view.md`, in a real browser.

    python docs/attention_view_picture.py docs/images/attention_view.png

It needs Chromium, and `playwright` to drive it; no browser is downloaded.
"""

import io
import pathlib
import shutil
import sys
import tempfile

from PIL import Image
from playwright.sync_api import sync_playwright

import relative_attention as ra

MODEL = "tatoeba_en_de"
SENTENCE = "The children are playing in the garden with their dog."
SIZE = {"width": 1240, "height": 1000}


def screenshot(page_path: pathlib.Path) -> bytes:
    """Returns a PNG of the page as it opens, without what is below."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        page.goto(page_path.as_uri())
        # Of the token that the text explains.
        page.locator("#queries li").nth(2).hover()
        end = page.locator(".reading").bounding_box()
        size = {"width": SIZE["width"], "height": end["y"] - 8}
        page.set_viewport_size(size | {"height": int(size["height"])})
        picture = page.screenshot()
        browser.close()
    return picture


def main(path: str) -> None:
    translator = ra.load_translator(MODEL)
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder, "view.html")
        ra.plot.attention_view(translator, SENTENCE).save(page)
        picture = Image.open(io.BytesIO(screenshot(page)))
    # A palette makes it a third as large.
    picture.convert("RGB").quantize(256).save(path, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1])
