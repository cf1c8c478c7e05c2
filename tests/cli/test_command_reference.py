"""The reference of commands is up to date."""

import pathlib
import runpy

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "guides" / "commands.md").read_text("utf-8")


def test_committed_page_is_what_the_command_prints():
    reference = runpy.run_path(str(DOCS / "command_reference.py"))["reference"]
    assert PAGE == reference(), (
        "run `python docs/command_reference.py` and commit "
        "docs/guides/commands.md"
    )
