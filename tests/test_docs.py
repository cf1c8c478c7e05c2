"""The HTML reference is built, and has every public name."""

import html
import inspect
import pathlib
import re
import subprocess
import sys

import pytest

import relative_attention as ra

ROOT = pathlib.Path(__file__).parents[1]


def words(text):
    """What is read, without marks of Markdown and HTML."""
    return re.findall(r"\w+", html.unescape(re.sub(r"<[^>]+>", "", text)))


@pytest.mark.large
def test_every_public_name_is_in_the_reference_once(tmp_path):
    built = subprocess.run(
        [sys.executable, "docs/build.py", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    assert "Warn" not in built.stdout
    modules = {n for n in ra.__all__ if inspect.ismodule(getattr(ra, n))}
    pages = {"relative_attention": ra}
    pages |= {f"relative_attention/{n}": getattr(ra, n) for n in modules}
    written = {path.relative_to(tmp_path) for path in tmp_path.rglob("*.html")}
    assert written == {
        pathlib.Path(f"{name}.html") for name in [*pages, "index"]
    }
    for path, module in pages.items():
        page = (tmp_path / f"{path}.html").read_text("utf-8")
        sections = dict(
            re.findall(r'<section id="(\w+)">(.*?)</section>', page, re.DOTALL)
        )
        names = re.findall(r'<section id="(\w+)">', page)
        own = set(module.__all__) - (modules if module is ra else set())
        assert sorted(names) == sorted(own)
        for name in own - {"__version__"}:
            docstring = inspect.getdoc(getattr(module, name))
            shown = " ".join(words(sections[name]))
            assert " ".join(words(docstring.split("\n\n")[0])) in shown
    assert "relative_attention.html" in (tmp_path / "index.html").read_text()
