"""Draws the picture of `docs/guides/serve.md`: the page that `serve` has.

    python docs/serve_screenshot.py

It needs Chromium, as `chromium` on the path, and the package `playwright`.
"""

import pathlib
import re
import shutil
import subprocess
import sys

from playwright.sync_api import Page
from playwright.sync_api import expect
from playwright.sync_api import sync_playwright

ROOT = pathlib.Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "serve.png"
MODELS = ("tatoeba_en_de", "tatoeba_de_en")
TEXT = "I have lost my keys. Can you help me?"
REFERENCE = "Ich habe die Schlüssel verloren. Kannst du mir helfen?"
MAIN = "import sys; from relative_attention.cli import main; sys.exit(main())"
# A machine may be busy.
PATIENCE = 60_000


def main() -> None:
    """Starts a server, uses its page, and keeps what is seen."""
    server = subprocess.Popen(
        [sys.executable, "-c", MAIN, "serve", *MODELS, "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        found = None
        for line in server.stdout or ():
            if found := re.search(r"http://\S+", line):
                break
        if found is None:
            sys.exit("The server did not start.")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            page = browser.new_page(viewport={"width": 1000, "height": 1240})
            page.goto(found[0])
            _use(page)
            PICTURE.parent.mkdir(exist_ok=True)
            page.screenshot(path=PICTURE, full_page=True)
            browser.close()
    finally:
        server.terminate()
        server.communicate()


def _use(page: Page) -> None:
    """Types a text and a reference, and asks for other ways to continue."""
    expect.set_options(timeout=PATIENCE)
    expect(page.locator("#model option")).to_have_count(len(MODELS))
    page.get_by_role("textbox", name="Text").fill(TEXT)
    expect(page.locator("#target .sentence")).to_have_count(2)
    page.get_by_role("textbox", name="Compare").fill(REFERENCE)
    expect(page.locator("#bleu")).to_contain_text("BLEU")
    page.locator("#target p").first.locator(".word").nth(4).click()
    expect(page.locator("#alternatives-list li").first).to_be_visible()


if __name__ == "__main__":
    main()
