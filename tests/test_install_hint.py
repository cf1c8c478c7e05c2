"""What messages and notebooks tell to install works in a checkout."""

import pathlib
import re

from relative_attention.errors import install_hint

ROOT = pathlib.Path(__file__).parents[1]


def test_hint_names_the_extra_of_a_checkout():
    assert install_hint("plot") == (
        "`pip install '.[plot]'` in a checkout of relative-attention"
    )


def test_nothing_is_asked_of_an_index_that_has_it_not():
    files = [
        path
        for folder in ("relative_attention", "notebooks", "models")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".ipynb", ".md")
    ]
    assert files
    for path in [*files, ROOT / "README.md"]:
        text = path.read_text("utf-8")
        assert not re.search(r"install[^\n]*relative-attention\[", text), path


def test_every_extra_that_is_hinted_at_exists():
    hinted = set()
    for path in (ROOT / "relative_attention").rglob("*.py"):
        text = path.read_text("utf-8")
        hinted |= set(re.findall(r"install_hint\(['\"](\w+)", text))
    assert hinted
    setup = (ROOT / "setup.py").read_text("utf-8")
    for extra in hinted:
        assert f'"{extra}": ' in setup
