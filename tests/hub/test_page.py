"""The Python blocks of docs/guides/keras_hub.md are run."""

import contextlib
import io
import re

import pytest

from tests.integration.readme_blocks import ROOT
from tests.integration.readme_blocks import blocks

PAGE = ROOT / "docs" / "guides" / "keras_hub.md"


@pytest.mark.large
def test_python_of_the_page_prints_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {}
    for language, block in blocks(PAGE.read_text("utf-8")):
        if language != "python":
            continue
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(block, "keras_hub.md", "exec"), given)
        for shown in re.findall(r"^print\(.*\)  # (.*)$", block, re.MULTILINE):
            assert shown in output.getvalue()
