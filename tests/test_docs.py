"""The site is built without a warning, is whole, and needs no network."""

import doctest
import pathlib
import re
import runpy
import subprocess
import sys

import keras
import numpy as np
import pytest

import relative_attention as ra
from tests.browser import browser  # noqa: F401  a fixture

ROOT = pathlib.Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    makefile = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", " ")
    (command,) = re.findall(r"python -m (sphinx .*)", makefile)
    arguments = command.replace("docs/_build", str(folder)).split()
    built = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "html"


def test_reference_pages_equal_the_docstrings():
    pages = runpy.run_path(str(ROOT / "docs" / "api_reference.py"))["pages"]
    for name, text in pages().items():
        assert (ROOT / "docs" / "api" / name).read_text("utf-8") == text, (
            "run `python docs/api_reference.py` and commit what it writes"
        )


def examples():
    """The examples of the reference, by what they are of."""
    for page in sorted((ROOT / "docs" / "api").glob("*.md")):
        parts = re.split(r"^#{2,4} (.*)$", page.read_text("utf-8"), flags=re.M)
        for name, text in zip(parts[1::2], parts[2::2]):
            for block in re.findall(r"```pycon\n(.*?)```", text, re.DOTALL):
                has_model = re.search(r"tatoeba|ra\.Transformer\b", block)
                yield pytest.param(
                    block,
                    marks=[pytest.mark.large] if has_model else [],
                    id=name.strip("`"),
                )


@pytest.mark.parametrize("block", examples())
def test_example_of_the_reference_runs(block, tmp_path, monkeypatch):
    """It needs no more than what the first page of the reference imports."""
    if "matplotlib" in block or "ra.plot" in block:
        pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    given = {"keras": keras, "np": np, "ra": ra}
    example = doctest.DocTestParser().get_doctest(block, given, "", None, 0)
    shown = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    result = runner.run(example, out=shown.append)
    assert result.attempted and not result.failed, "".join(shown)


@pytest.mark.large
def test_public_names_link_to_their_entries(site):
    guide = (site / "docs" / "guides" / "positions.html").read_text("utf-8")
    (page, anchor), *_ = re.findall(
        r'href="(\.\./api/[^"#]*)#([^"]*)"><[^>]*>ra\.TransformerConfig',
        guide,
    )
    entry = (site / "docs" / "guides" / page).read_text("utf-8")
    assert f'id="{anchor}"' in entry and "position_encoding" in entry


@pytest.mark.large
def test_pages_work_without_a_network(site, browser):  # noqa: F811
    page = browser.new_page()
    page.set_default_timeout(10_000)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "index.html").as_uri())
    page.wait_for_url("**/docs/index.html")
    # Sums are larger than letters where the font has arrived.
    page.click("text=The idea")
    page.wait_for_function("document.fonts.check('1em \"STIX Two Math\"')")
    assert (
        page.locator("math mo", has_text="∑").first.bounding_box()["height"]
        > 1.2 * page.locator("math mi").first.bounding_box()["height"]
    )
    page.fill("input[name=q]", "SelfAttention")
    page.press("input[name=q]", "Enter")
    page.click("#search-results a >> text=Layers")
    assert "/docs/api/layers.html" in page.url
    assert all(url.startswith(("file:", "data:")) for url in asked)
    page.close()
