"""The guide to the attention view: its code runs, its picture is small."""

import re

import pytest

from tests.integration.readme_blocks import ROOT
from tests.integration.readme_blocks import blocks
from tests.integration.readme_blocks import parse_words
from tests.integration.readme_blocks import shell_lines

PAGE = ROOT / "docs" / "guides" / "attention_view.md"
TEXT = PAGE.read_text("utf-8")


@pytest.mark.large
def test_code_of_the_guide_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    code = [block for language, block in blocks(TEXT) if language == "python"]
    for block in code:
        exec(block, names)
    assert len(code) == 2
    assert (tmp_path / "view.html").read_text("utf-8").startswith("<!doctype")
    assert names["logits"].shape == names["first"].scores.shape
    assert names["outputs"].shape == names["first"].value_context.shape


def test_commands_of_the_guide_are_those_that_there_are():
    commands = [
        words
        for language, block in blocks(TEXT)
        if language == "shell" and block.startswith("relative-attention")
        for words in shell_lines(block)
    ]
    assert [parse_words(words).output for words in commands] == ["view.html"]


def test_links_and_scripts_of_the_guide_are_there():
    for link in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (PAGE.parent / link).is_file()
    (script,) = re.findall(r"`python (\S+)", TEXT)
    assert (ROOT / script).is_file()


def test_pictures_of_the_guide_are_small():
    for picture in re.findall(r"!\[.+\]\((.+)\)", TEXT):
        assert (PAGE.parent / picture).stat().st_size < 200_000
