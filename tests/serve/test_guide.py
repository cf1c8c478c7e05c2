"""What the guide says is so."""

import re

from relative_attention.cli import parse
from relative_attention.serve.http_connection import HEADER_SECONDS
from relative_attention.serve.server_settings import ServerSettings
from tests.integration.readme_blocks import ROOT
from tests.integration.readme_blocks import shell_lines
from tests.serve.guide import GUIDE
from tests.serve.guide import guide_blocks


def test_commands_are_those_that_there_are():
    lines = [
        words
        for language, block in guide_blocks()
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
    told = re.findall(r"`--([\w-]+) (\d+)`", GUIDE)
    names = [name.replace("-", "_") for name, _ in told]
    assert set(names) == {
        "max_batch",
        "max_wait_ms",
        "queue",
        "max_bytes",
        "max_sentences",
        "max_tokens",
    }
    for name, (_, value) in zip(names, told):
        assert options[name] == usual[name] == int(value)
    assert f"more than {HEADER_SECONDS:g} seconds" in GUIDE
    assert f"or {usual['read_seconds']:g} for the rest" in GUIDE


def test_links_and_picture_are_there():
    for link in re.findall(r"\]\(([^)#]+)", GUIDE):
        if not link.startswith("http"):
            assert (ROOT / "docs" / "guides" / link).exists(), link
    picture = ROOT / "docs" / "images" / "serve.png"
    assert picture.stat().st_size < 200_000
