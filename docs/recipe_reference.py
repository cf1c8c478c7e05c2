"""Writes the reference of recipes, `docs/guides/recipes.md`.

    python docs/recipe_reference.py

Each key's item is made from its declaration in `relative_attention`, which also
checks its value, and from the text below the declaration, or in the docstring
of `TransformerConfig`. A test compares the page with the output of this script.
"""

import ast
import dataclasses
import inspect
import pathlib
import re
import textwrap
import types
import typing

from relative_attention.models import TransformerConfig
from relative_attention.models import presets
from relative_attention.recipes.recipe import SECTIONS
from relative_attention.recipes.recipe import SIZES_OF_VOCABULARIES
from relative_attention.schema import Key
from relative_attention.schema import keys_of

PAGE = pathlib.Path(__file__).parent / "guides" / "recipes.md"

_HEAD = """\
<!-- Written by `python docs/recipe_reference.py`; change it there. -->

# The keys of a recipe

A recipe is a YAML file with the sections below. Omitted keys take their
defaults. `relative-attention list` names the recipes that come with the
package. Any value can be replaced on the command line:

    relative-attention train my.yaml training.steps=1000 model.dropout=0.2

An unknown key, a value of the wrong type or one that is not allowed is an
error before any work. Some keys may change when a run is resumed
(`train --resume runs/mine training.epochs=60`), but the tokens of an update
must stay the same. A recipe may also have a `name` (by default that of
its file or folder) and a `description`.
"""

_MODEL = """\
`preset` is one of {presets}. Other keys replace values of the preset. A preset
also sets its authors' training values (`ra.preset_training`), which the section
`training` may replace. The defaults below are those of `TransformerConfig`; a
preset has its own. No key of `model` may change when a run is resumed. The
sizes of the vocabularies follow from the data. In a recipe, `dropout` may be
`auto`: 0.3 for fewer than 50,000 pairs, else 0.1. With `vocabulary.joint:
false` the default of `share_embeddings` is `target`.
"""


def reference() -> str:
    """Returns the page as Markdown."""
    parts = [_HEAD]
    for name, cls in SECTIONS.items():
        parts += [f"## `{name}`\n", _sentences(cls), _section_list(cls)]
    names = ", ".join(f"`{preset}`" for preset in presets())
    model = textwrap.fill(_MODEL.format(presets=names), 80)
    parts += ["## `model`\n", f"{model}\n", _section_list(TransformerConfig)]
    return "\n".join(parts)


def _section_list(cls: type) -> str:
    keys = keys_of(cls)
    meanings = {**_documented(cls), **_meanings(cls)}
    items = []
    for field in dataclasses.fields(cls):
        if field.name in SIZES_OF_VOCABULARIES:
            continue
        rule = keys[field.name]
        words = [meanings[field.name].rstrip(".")]
        if _bounds(rule):
            words.append(f"Allowed: {_bounds(rule)}")
        if rule.may_change:
            words.append("*May change when a run is resumed*")
        kind, default = _type(cls, field.name), _value(field.default)
        text = ". ".join(words)
        items.append(
            f"- **`{field.name}`** ({kind}, default {default}): {text}.\n"
        )
    return "".join(items)


def _meanings(cls: type) -> dict[str, str]:
    """Returns the text below each field of a class, by name."""
    body = ast.parse(inspect.getsource(cls)).body[0].body
    meanings = {}
    for field, below in zip(body, body[1:]):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
            text = ast.literal_eval(below.value)
            meanings[ast.unparse(field.target)] = " ".join(text.split())
    return meanings


def _documented(cls: type) -> dict[str, str]:
    """Returns what the `Attributes:` of a docstring say, by name."""
    _, _, attributes = (inspect.getdoc(cls) or "").partition("\nAttributes:\n")
    attributes, _, _ = attributes.partition("\n\nExample")
    entries = re.split(r"^ {4}(?=\w+: )", attributes, flags=re.MULTILINE)
    pairs = (entry.split(": ", 1) for entry in entries if entry.strip())
    # A recipe is YAML, where `None` is `null`.
    return {
        name: " ".join(text.split()).replace("`None`", "`null`")
        for name, text in pairs
    }


def _sentences(cls: type) -> str:
    """Returns the docstring of a section, with its paragraphs refilled."""
    paragraphs = (inspect.getdoc(cls) or "").split("\n\n")
    return "\n".join(f"{textwrap.fill(text, 80)}\n" for text in paragraphs)


def _type(cls: type, name: str) -> str:
    hint = typing.get_type_hints(cls)[name]
    kinds = (
        typing.get_args(hint) if isinstance(hint, types.UnionType) else [hint]
    )
    return " or ".join(
        "null" if kind is types.NoneType else kind.__name__ for kind in kinds
    )


def _value(value: object) -> str:
    """Returns a default as YAML has it."""
    if value is None or isinstance(value, bool):
        return {None: "`null`", True: "`true`", False: "`false`"}[value]
    return f"`{value}`" if value != "" else '`""`'


def _bounds(rule: Key) -> str:
    parts = []
    if rule.at_most is not None:
        parts.append(f"{rule.at_least} to {rule.at_most:,}")
    elif rule.at_least is not None:
        parts.append(f"at least {rule.at_least}")
    if rule.is_fraction:
        low = "above 0" if rule.is_positive else "at least 0"
        parts.append(f"{low}, below 1")
    elif rule.is_positive:
        parts.append("above 0")
    if rule.is_language:
        parts.append("a language code")
    if rule.choices:
        parts.append(" or ".join(f"`{choice}`" for choice in rule.choices))
    return ", or ".join(parts)


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
    print(PAGE)
