"""Docstrings are Markdown with Google's sections; Sphinx reads another form.

Napoleon knows the sections. What is Markdown inside them, such as links, tables
and blocks of code, is turned into reStructuredText before.
"""

import re
from collections.abc import Iterator

from sphinx.application import Sphinx

_LINK = re.compile(r"\[([^][]+)\]\((https?://[^)\s]+)\)")
_ITEM = re.compile(r" *(-|\d+\.) ")
# `**kwargs` would begin bold type; what Napoleon makes bold also ends it.
_STARS = re.compile(r"(?<![\\*`\w])(\*\*?)(\w+)(?![\w*])")


def to_restructured_text(docstring: str) -> str:
    """Turns the Markdown of a docstring into reStructuredText."""
    lines: list[str] = []
    before = "text"
    for kind, line in _kinds(_LINK.sub(_link, docstring).splitlines()):
        # reStructuredText wants a blank line before such a block, and a line
        # that says what it is.
        if kind != before:
            follows_text = bool(lines and lines[-1].strip())
            is_first = follows_text and _is_head(lines[-1])
            if follows_text and not is_first and kind in ("table", "list"):
                lines.append("")
            if kind == "table":
                indent = line[: len(line) - len(line.lstrip())]
                lines += [f"{indent}.. list-table::"]
                lines += [f"{indent}   :header-rows: 1", ""]
            elif kind == "indented":
                lines += ["::", ""]
        if kind == "table":
            lines += _table_row(line)
        elif kind == "fenced":
            is_fence = line.startswith("```")
            starts = is_fence and before != "fenced"
            lines += [".. code-block:: python", ""] if starts else []
            lines += [] if is_fence else [f"    {line}"]
        elif kind == "example":
            lines.append(f"    {line}")
        else:
            lines.append(line)
        before = kind
    return "\n".join(lines)


def _link(match: re.Match[str]) -> str:
    text = " ".join(match[1].split())
    return f"`{text} <{match[2]}>`__"


def _kinds(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yields the kind of block that each line belongs to, and the line."""
    kind, previous, paragraph = "text", "", ""
    for line in lines:
        is_indented = line.startswith("    ")
        if kind == "fenced" and previous != "```":
            kind = "fenced"
        elif line.startswith("```"):
            kind = "fenced"
        elif line.lstrip().startswith("| "):
            kind = "table"
        elif _is_head(previous) and line.startswith(">>>"):
            kind = "example"
        elif kind == "example" and line.strip():
            kind = "example"
        elif kind == "indented" and (is_indented or not line.strip()):
            kind = "indented"
        elif is_indented and not previous.strip() and paragraph[:1].strip():
            kind = "indented"
        elif _ITEM.match(line) or (kind == "list" and line.startswith(" ")):
            kind = "list"
        else:
            kind = "text"
        yield kind, line
        previous = line
        paragraph = line if line.strip() else paragraph


def _is_head(line: str) -> bool:
    """Whether a line is the head of a section, such as `Reference:`."""
    return bool(re.fullmatch(r"[A-Z][a-z ]+:", line))


def _table_row(line: str) -> list[str]:
    """Returns a row as one of a `list-table`."""
    indent = line[: len(line) - len(line.lstrip())]
    cells = [cell.strip() for cell in line.strip()[1:-1].split("|")]
    if all(re.fullmatch(":?-{3,}:?", cell) for cell in cells):
        return []
    # A dash by itself would begin a list.
    first, *rest = [r"\-" if cell == "-" else cell for cell in cells]
    return [
        f"{indent}   * - {first}",
        *(f"{indent}     - {cell}" for cell in rest),
    ]


def before_napoleon(
    app: Sphinx,
    what: str,
    name: str,
    public: object,
    options: object,
    lines: list[str],
) -> None:
    lines[:] = to_restructured_text("\n".join(lines)).splitlines()


def after_napoleon(
    app: Sphinx,
    what: str,
    name: str,
    public: object,
    options: object,
    lines: list[str],
) -> None:
    is_code = False
    for number, line in enumerate(lines):
        if ">>>" in line or "code-block" in line or line == "::":
            is_code = True
        elif line and not line.startswith(" ") and not line.startswith("..."):
            is_code = False
        if not is_code:
            lines[number] = _STARS.sub(_escaped, line)


def _escaped(match: re.Match[str]) -> str:
    return match[1].replace("*", r"\*") + match[2]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", before_napoleon, priority=400)
    app.connect("autodoc-process-docstring", after_napoleon, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
