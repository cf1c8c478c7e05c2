"""Hints in messages: the nearest known name, and what to install."""

import pathlib
import re

from relative_attention.errors import nearest_name

ROOT = pathlib.Path(__file__).parents[1]


def test_nothing_is_suggested_when_no_name_is_near():
    known = ("transformer_base", "transformer_big")
    assert nearest_name("copy", known) is None
    # What is no string is compared as it is written.
    assert nearest_name(16, ["17", "116"]) == "116"


def test_hint_names_no_package_index():
    files = [
        path
        for folder in ("relative_attention", "models")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".md")
    ]
    assert files
    for path in [*files, ROOT / "README.md"]:
        text = path.read_text("utf-8")
        assert not re.search(r"install[^\n]*relative-attention\[", text), path


def test_hinted_extras_exist():
    hinted = set()
    for path in (ROOT / "relative_attention").rglob("*.py"):
        text = path.read_text("utf-8")
        hinted |= set(re.findall(r"install_hint\(['\"](\w+)", text))
    assert hinted
    setup = (ROOT / "setup.py").read_text("utf-8")
    for extra in hinted:
        assert f'"{extra}": ' in setup
