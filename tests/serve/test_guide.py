"""What the guide, `docs/guides/serve.md`, says is so."""

import re

from relative_attention.cli import parse
from relative_attention.serve import ServerSettings
from tests.integration.readme_blocks import ROOT
from tests.integration.readme_blocks import blocks
from tests.integration.readme_blocks import shell_lines

GUIDE = (ROOT / "docs" / "guides" / "serve.md").read_text("utf-8")


def test_commands_are_those_that_there_are():
    lines = [
        words
        for language, block in blocks(GUIDE)
        if language == "shell"
        for words in shell_lines(block)
    ]
    served = [words for words in lines if words[:1] == ["relative-attention"]]
    assert len(served) >= 2
    for words in served:
        assert parse(words[1:]).command == "serve"
    assert ["pip", "install", ".[serve]"] in lines


def test_limits_are_those_of_the_options_and_of_the_settings():
    options = vars(parse(["serve", "m"]))
    usual = vars(ServerSettings())
    told = {
        name.replace("-", "_"): int(value)
        for name, value in re.findall(r"`--([\w-]+) (\d+)`", GUIDE)
    }
    assert len(told) == 6
    for name, value in told.items():
        assert options[name] == usual[name] == value
