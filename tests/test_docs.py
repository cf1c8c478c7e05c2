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
    page = (tmp_path / "relative_attention.html").read_text("utf-8")
    sections = dict(
        re.findall(r'<section id="(\w+)">(.*?)</section>', page, re.DOTALL)
    )
    names = re.findall(r'<section id="(\w+)">', page)
    assert sorted(names) == sorted(ra.__all__)
    for name in set(ra.__all__) - {"__version__"}:
        docstring = inspect.getdoc(getattr(ra, name))
        shown = " ".join(words(sections[name]))
        assert " ".join(words(docstring.split("\n\n")[0])) in shown
    assert "relative_attention.html" in (tmp_path / "index.html").read_text()
