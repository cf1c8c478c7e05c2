"""The blocks of docs/guides/keras_hub.md are run, and its links are right."""

import contextlib
import io
import re

import pytest

from tests.integration.readme_blocks import ROOT
from tests.integration.readme_blocks import blocks
from tests.integration.readme_blocks import parse_words
from tests.integration.readme_blocks import shell_lines

PAGE = (ROOT / "docs" / "guides" / "keras_hub.md").read_text("utf-8")
BLOCKS = blocks(PAGE)


@pytest.mark.large
def test_python_of_the_page_prints_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {}
    for language, block in BLOCKS:
        if language != "python":
            continue
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(block, "keras_hub.md", "exec"), given)
        for shown in re.findall(r"^print\(.*\)  # (.*)$", block, re.MULTILINE):
            assert shown in output.getvalue()


def test_commands_of_the_page_are_those_that_there_are():
    languages = [language for language, _ in BLOCKS]
    assert set(languages) == {"python", "shell"}
    for language, block in BLOCKS:
        if language == "shell":
            for words in shell_lines(block):
                assert parse_words(words).command == words[1]


def test_files_that_the_page_names_are_there():
    names = re.findall(r"`((?:\w+/)*\w+\.py)`", PAGE)
    assert len(names) == 2
    for name in names:
        assert list((ROOT / "relative_attention").rglob(name.split("/")[-1]))
