"""The site is built without a warning, is whole, and needs no network."""

import html
import inspect
import pathlib
import re
import subprocess
import sys

import pytest

import relative_attention as ra
from tests.browser import browser  # noqa: F401  a fixture

ROOT = pathlib.Path(__file__).parents[1]
# What an entry of the reference begins with; it ends with the next.
ENTRY = re.compile(r'<dt class="sig[^"]*" id="(relative_attention\.[\w.]+)">')


def words(text):
    """What is read, without marks of Markdown and HTML."""
    return " ".join(re.findall(r"\w+", html.unescape(text)))


def public_objects():
    """Classes and functions for users, by full name."""
    found = {}
    for name in set(ra.__all__) - {"__version__"}:
        public = getattr(ra, name)
        if inspect.ismodule(public):
            for own in public.__all__:
                found[f"{public.__name__}.{own}"] = getattr(public, own)
        else:
            found[f"relative_attention.{name}"] = public
    return found


def parameters(public):
    """What a class or function takes; an exception says nothing of it."""
    if inspect.isclass(public) and not inspect.isfunction(public.__init__):
        return []
    return list(inspect.signature(public).parameters.values())


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


@pytest.mark.large
def test_every_public_name_has_an_entry_with_what_it_takes(site):
    entries = {}
    for page in (site / "docs" / "api").glob("*.html"):
        article = page.read_text("utf-8").split("<article")[1]
        _, *parts = ENTRY.split(article.split("</article>")[0])
        for name, entry in zip(parts[::2], parts[1::2]):
            assert name not in entries
            entries[name] = [
                words(re.sub(r"<[^>]+>", "", part))
                for part in entry.split("</dt>", 1)
            ]
    for name, public in public_objects().items():
        signature, text = entries[name]
        assert words(inspect.getdoc(public).split("\n\n")[0]) in text
        # From the last argument to the first, each with what is left of it.
        for parameter in reversed(parameters(public)):
            signature, _, written = f" {signature}".rpartition(
                f" {parameter.name} "
            )
            assert written, (name, parameter)
            if isinstance(parameter.default, bool | int | float | str):
                default = words(repr(parameter.default))
                # As in the source: 20_000.
                written = re.sub(r"(?<=\d)_(?=\d)", "", written)
                assert default in written, (name, parameter, written)


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
    page.click("#search-results a >> text=RelativeSelfAttention")
    assert "/docs/api/layers.html" in page.url
    assert all(url.startswith(("file:", "data:")) for url in asked)
    page.close()
