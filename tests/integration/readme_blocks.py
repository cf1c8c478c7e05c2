"""Reads the blocks of README and guides, and the commands in them."""

import pathlib
import re
import shlex

import relative_attention as ra
from relative_attention.cli import parse

ROOT = pathlib.Path(__file__).parents[2]
README = ROOT / "README.md"
# Those with examples that one reader follows, from the first to the last; what
# they share, a model that is trained, is made once.
_GUIDES = (
    "install layer generate pictures translate train languages clusters "
    "cluster_jobs resume decode evaluate export positions faq serve jax "
    "adapters_and_int8 attention_view keras_hub"
)
# Their Python is one program, from the first block to the last.
_PROGRAMS = ("adapters_and_int8", "attention_view", "generate", "keras_hub")
# These have tests of their own.
OTHER_GUIDES = "commands large_jobs own_text recipes text"
_MOVING_IN = "tensor2tensor opennmt_tf multi_head_attention differences"
PAGES = [
    README,
    ROOT / "docs" / "index.md",
    *(ROOT / "docs" / "guides" / f"{name}.md" for name in _GUIDES.split()),
    ROOT / "docs" / "science" / "idea.md",
    ROOT / "docs" / "science" / "studies.md",
    *(
        ROOT / "docs" / "moving_in" / f"{name}.md"
        for name in _MOVING_IN.split()
    ),
]
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
PROSE = re.sub(r"^```.*?^```", "", TEXT, flags=re.DOTALL | re.MULTILINE)


def blocks(text):
    """Language and text of every fenced and every indented block."""
    found, block, language = [], None, None
    is_after_blank = True
    for line in [*text.split("\n"), ""]:
        if block is None and line.startswith("```"):
            language, block = line[3:] or "text", []
        elif language is not None:
            if line == "```":
                found.append((language, "".join(block)))
                language = block = None
            else:
                block.append(f"{line}\n")
        elif line.startswith("    ") and (block or is_after_blank):
            block = [*(block or []), f"{line[4:]}\n"]
        elif block:
            found.append(("shell", "".join(block)))
            block = None
        is_after_blank = not line
    assert block is None, "a fence is not closed"
    return found


# Each once, with the first page that has it: the README shows some of what the
# guides tell.
PAGE_OF = {}
for _page in PAGES:
    _found = blocks(_page.read_text(encoding="utf-8"))
    if _page.stem in _PROGRAMS:
        _python = "".join(text for name, text in _found if name == "python")
        _found = [block for block in _found if block[0] != "python"]
        _found.append(("python", _python))
    for _block in _found:
        PAGE_OF.setdefault(_block, _page.stem)
BLOCKS = list(PAGE_OF)


def shell_lines(block):
    """Lists of the words of each command, without comments."""
    lines = block.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, True))]


def all_shell_lines():
    return [
        words
        for language, block in BLOCKS
        if language == "shell"
        for words in shell_lines(block)
    ]


def commands():
    """Words of every `relative-attention` that is a block or in the text."""
    lines = all_shell_lines()
    for command in re.findall(r"`(relative-attention [^`]+)`", PROSE):
        lines.append(shlex.split(command))
    return [words for words in lines if words[0] == "relative-attention"]


def parse_words(words):
    """What the command line asks for; its recipe is read, its keys, too."""
    arguments, _, _ = redirections(words[1:])
    options = parse(arguments)
    if options.command in ("train", "distill"):
        # The run to resume is not there; its keys are those of any recipe.
        is_run = options.recipe == options.output
        recipe = "small_relative" if is_run else options.recipe
        # The reader's own module is not there; test_own_encoding.py has one.
        overrides = [o for o in options.overrides if "mymodule:" not in o]
        ra.find_recipe(recipe).override(overrides)
    if options.command == "study":
        ra.find_study(options.study).override(options.overrides)
    return options


def redirections(words):
    """Words without `< FILE` and `> FILE`, and these two files or `None`."""
    files = {}
    for sign in "<>":
        if sign in words:
            place = words.index(sign)
            files[sign] = words[place + 1]
            words = words[:place] + words[place + 2 :]
    return words, files.get("<"), files.get(">")
