"""A real browser for tests, where there is one; none is downloaded."""

import importlib.util
import shutil

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


# No longer than a module: while Playwright is there, its event loop runs, and
# no other can be started.
@pytest.fixture(scope="module")
def browser():
    """Debian's Chromium, driven by Playwright."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("no browser: `apt install chromium`")
    if importlib.util.find_spec("playwright") is None:
        pytest.skip("Playwright is missing: `pip install playwright`")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Root has no sandbox, and a container little shared memory.
        browser = playwright.chromium.launch(
            executable_path=path,
            args=["--no-sandbox", "--disable-dev-shm-usage"],
        )
        yield browser
        browser.close()
