"""Writes the entries of public names into the pages of `docs/api`.

    python docs/api_reference.py

A page has its words, and marks that say which names belong there:
`<!-- reference: SelfAttention plot.attention_view -->` to
`<!-- /reference -->`. What stands between them is made of signatures and
docstrings. A test compares the pages with what this writes. The site is built
of the same pages.
"""

import functools
import inspect
import pathlib
import re
import sys
import textwrap
from collections.abc import Iterator

import relative_attention as ra

FOLDER = pathlib.Path(__file__).parent / "api"
_BLOCK = re.compile(
    r"<!-- reference: (?P<names>[\w. \n]+) -->.*?<!-- /reference -->", re.DOTALL
)
_SECTION = re.compile(r"([A-Z][a-z ]+):")
_ITEMS = ("Args", "Attributes", "Call arguments", "Raises")
# `name: text`, and `first, second: text`.
_ITEM = re.compile(r"((?:\*{0,2}[\w.]+, )*\*{0,2}[\w.]+): ?(.*)", re.DOTALL)
# `**kwargs` would begin bold type.
_STARS = re.compile(r"(?<![\\*`\w])(\*\*?)(?=\w)")
_WIDTH = 80

# === Which names, and where ===


def public_names() -> dict[str, object]:
    """Returns all that users may use, by its name after `ra.`."""
    names = {}
    for name in set(ra.__all__) - {"__version__"}:
        public = getattr(ra, name)
        if inspect.ismodule(public):
            names |= {f"{name}.{x}": getattr(public, x) for x in public.__all__}
        else:
            names[name] = public
    return names


def pages() -> dict[str, str]:
    """Returns the text of each page, with entries that are up to date.

    Raises:
        ValueError: If a public name is on no page, or on two, or a page has
            a name that is not public.
    """
    public, seen, texts = public_names(), [], {}

    def fill(block: re.Match) -> str:
        names = block["names"].split()
        seen.extend(names)
        level = "###" if "\n## " in block.string[: block.start()] else "##"
        entries = [_contents(names)] if len(names) > 1 else []
        entries += [_entry(name, public[name], level) for name in names]
        mark = f"<!-- reference: {block['names']} -->"
        return "\n\n".join([mark, *entries, "<!-- /reference -->"])

    for path in sorted(FOLDER.glob("*.md")):
        texts[path.name] = _BLOCK.sub(fill, path.read_text("utf-8"))
    if sorted(seen) != sorted(public):
        raise ValueError(
            "Every public name needs one mark in docs/api/*.md. Missing: "
            f"{sorted(public.keys() - set(seen))}. Twice, or not public: "
            f"{sorted(n for n in seen if seen.count(n) > 1 or n not in public)}"
        )
    return texts


@functools.cache
def anchors() -> dict[str, tuple[str, str]]:
    """Returns page and anchor of each entry, by its name after `ra.`."""
    found = {}
    for page, text in pages().items():
        for name in re.findall(r"^##+ `([\w.]+)`$", text, re.MULTILINE):
            found[name] = (page.removesuffix(".md"), _anchor(name))
    return found


def _anchor(name: str) -> str:
    return name.lower().replace(".", "")


def _contents(names: list[str]) -> str:
    links = [f"[`{name}`](#{_anchor(name)})" for name in names]
    return textwrap.fill(", ".join(links), _WIDTH, break_on_hyphens=False)


# === An entry ===


def _entry(name: str, public: object, level: str) -> str:
    parts = [f"{level} `{name}`", _signature(f"ra.{name}", public)]
    parts.append(to_markdown(inspect.getdoc(public) or ""))
    if inspect.isclass(public):
        for method, member in _members(public):
            parts.append(f"{level}# `{name}.{method}`")
            if inspect.isfunction(member):
                parts.append(_signature(method, member))
            parts.append(to_markdown(inspect.getdoc(member) or ""))
    return "\n\n".join(part for part in parts if part)


def _signature(name: str, public: object) -> str:
    """Returns how something is called, without types."""
    function = public
    if inspect.isclass(public):
        # Of a class without one of its own it says nothing.
        if not inspect.isfunction(public.__init__):
            return ""
        function = public.__init__
    parameters = list(inspect.signature(function).parameters.values())
    if parameters and parameters[0].name in ("self", "cls"):
        del parameters[0]
    kinds = inspect.Parameter
    words, has_star = [], False
    for parameter in parameters:
        if parameter.kind is kinds.KEYWORD_ONLY and not has_star:
            words.append("*")
        has_star |= parameter.kind in (kinds.VAR_POSITIONAL, kinds.KEYWORD_ONLY)
        word = str(parameter.replace(annotation=kinds.empty))
        default = parameter.default
        if default is not kinds.empty:
            word = f"{parameter.name}={_default(default)}"
        words.append(word)
    line = f"{name}({', '.join(words)})"
    if len(line) > _WIDTH:
        lines = "".join(f"    {word},\n" for word in words)
        line = f"{name}(\n{lines})"
    return f"```python\n{line}\n```"


def _default(default: object) -> str:
    if isinstance(default, str):
        return f'"{default}"'
    if isinstance(default, tuple):
        return f"({', '.join(map(_default, default))})"
    if default is None or isinstance(default, bool | int | float):
        return repr(default)
    return getattr(default, "__name__", "...")


def _members(public: type) -> Iterator[tuple[str, object]]:
    """Yields methods and properties that the entry of a class explains.

    Those of Keras are explained there, and those of another public class, which
    a subclass may override, at its own entry.
    """
    ours = [c for c in public.__mro__ if c.__module__.startswith(ra.__name__)]
    shown = {public, *public_names().values()}
    elsewhere = {
        name
        for other in ours
        if other in shown - {public}
        for base in other.__mro__
        if base in ours
        for name, member in vars(base).items()
        if member.__doc__
    }
    seen = set(elsewhere)
    for base in ours:
        for name, member in vars(base).items():
            member = getattr(member, "__func__", member)
            is_shown = inspect.isfunction(member) or _is_property(member)
            if is_shown and member.__doc__ and name not in seen:
                if not name.startswith("_"):
                    seen.add(name)
                    yield name, member


def _is_property(member: object) -> bool:
    return isinstance(member, property | functools.cached_property)


# === Docstrings, which are Markdown with Google's sections ===


def to_markdown(docstring: str) -> str:
    """Returns a docstring with its sections as lists and blocks of code."""
    parts, section, lines = [], "", []
    for line in [*docstring.splitlines(), None]:
        head = _SECTION.fullmatch(line) if line is not None else None
        if line is not None and not head:
            lines.append(line)
            continue
        parts.append(_section(section, "\n".join(lines)))
        section, lines = head[1] if head else "", []
    return "\n\n".join(part for part in parts if part)


def _section(name: str, text: str) -> str:
    text = textwrap.dedent(text).strip("\n")
    if not name:
        return _text(text)
    if name.startswith("Example") and ">>>" in text:
        return _text(text)
    if name in _ITEMS:
        # An item begins where a line is not indented.
        items = re.split(r"\n(?=\S)", text)
        body = "\n".join(_item(item) for item in items)
    else:
        body = _text(text)
    return f"**{name}**\n\n{body}"


def _item(item: str) -> str:
    found = _ITEM.fullmatch(item)
    if not found:
        return f"- {_words(item)}"
    names = ", ".join(f"`{name}`" for name in found[1].split(", "))
    return _fill(f"{names}: {_words(found[2])}", "- ")


def _text(text: str) -> str:
    """Returns paragraphs, lists, and what is indented or tried as code."""
    parts = []
    for block in re.split(r"\n\s*\n", text):
        first = block.lstrip("\n")
        if first.startswith("    ") or first.startswith(">>>"):
            language = "pycon" if ">>>" in first else "text"
            code = textwrap.dedent(block)
            parts.append(f"```{language}\n{code}\n```")
        elif re.match(r" *(-|\d+\.) ", first):
            items = re.split(r"\n(?= *(?:-|\d+\.) )", first)
            lines = [_words(item.strip()) for item in items]
            parts.append("\n".join(_list_item(line) for line in lines))
        else:
            parts.append(_fill(_words(first), ""))
    return "\n\n".join(part for part in parts if part.strip())


def _list_item(line: str) -> str:
    mark, _, text = line.partition(" ")
    return _fill(text, f"{mark} ")


def _words(text: str) -> str:
    """Returns text on one line, without what Markdown would take for marks."""
    pieces = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(
        piece
        if piece.startswith("`")
        else re.sub(r"([$<])", r"\\\1", _STARS.sub(_escaped, piece))
        for piece in pieces
    )


def _escaped(match: re.Match) -> str:
    return match[1].replace("*", r"\*")


def _fill(text: str, mark: str) -> str:
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=mark,
        subsequent_indent=" " * len(mark),
        break_long_words=False,
        break_on_hyphens=False,
    )


if __name__ == "__main__":
    for page, text in pages().items():
        (FOLDER / page).write_text(text, "utf-8")
    sys.stdout.write(f"{FOLDER}\n")
