"""The page on the keys of a recipe is what the command prints."""

import dataclasses
import pathlib
import runpy

from relative_attention.runs.recipe import SECTIONS

DOCS = pathlib.Path(__file__).parents[2] / "docs"


def test_committed_page_is_what_the_command_prints():
    reference = runpy.run_path(str(DOCS / "recipe_reference.py"))["reference"]
    page = reference()
    assert (DOCS / "guides" / "recipes.md").read_text("utf-8") == page, (
        "run `python docs/recipe_reference.py` and commit "
        "docs/guides/recipes.md"
    )
    for name, cls in SECTIONS.items():
        _, _, section = page.partition(f"## `{name}`\n")
        section = section.partition("\n## ")[0]
        for field in dataclasses.fields(cls):
            assert section.count(f"\n| `{field.name}` | ") == 1
    assert "| `hidden_dim` | int | `512` | " in page
    assert "| `num_beams` | int | `4` | " in page
