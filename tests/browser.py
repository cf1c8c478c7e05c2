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


@pytest.fixture
def open_page(browser):
    """`open_page(url, viewport=...)`: a page that loads nothing from elsewhere.

    It must leave the console empty.
    """
    contexts, said = [], []

    def open_page(url, **settings):
        contexts.append(browser.new_context(**settings))
        page = contexts[-1].new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        places = (url, "file:", "data:", "blob:")
        page.on(
            "request",
            lambda request: (
                request.url.startswith(places) or said.append(request.url)
            ),
        )
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not said
