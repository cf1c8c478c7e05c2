"""The reference of commands is up to date and names every option."""

import pathlib
import re
import runpy

import pytest

from relative_attention.cli import main

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "guides" / "commands.md").read_text("utf-8")


def test_committed_page_is_what_the_command_prints():
    reference = runpy.run_path(str(DOCS / "command_reference.py"))["reference"]
    assert PAGE == reference(), (
        "run `python docs/command_reference.py` and commit "
        "docs/guides/commands.md"
    )


@pytest.mark.parametrize("command", ["translate", "serve", "train"])
def test_every_option_of_help_is_on_the_page(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    options = re.findall(r"^  (--[\w-]+)", capsys.readouterr().out, re.M)
    assert options
    _, _, section = PAGE.partition(f"## `{command}`\n")
    for option in options:
        assert f"\n| `{option}" in section.partition("\n## ")[0]
