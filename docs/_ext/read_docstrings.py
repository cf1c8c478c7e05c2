"""Docstrings are Markdown with Google's sections; Sphinx reads another form.

Napoleon knows the sections. Links, lists, and indented blocks of code are
turned into reStructuredText before. Docstrings have no tables and no fences.
"""

import re

from sphinx.application import Sphinx

_LINK = re.compile(r"\[([^][]+)\]\((https?://[^)\s]+)\)")
_ITEM = re.compile(r" *(-|\d+\.) ")
# `**kwargs` would begin bold type; what Napoleon makes bold also ends it.
_STARS = re.compile(r"(?<![\\*`\w])(\*\*?)(\w+)(?![\w*])")


def to_restructured_text(docstring: str) -> str:
    """Turns the Markdown of a docstring into reStructuredText."""
    lines: list[str] = []
    kind, previous, paragraph = "text", "", ""
    for line in _LINK.sub(_link, docstring).splitlines():
        before, kind = kind, _kind(kind, line, previous, paragraph)
        if kind != before:
            if kind == "list" and previous.strip() and not _is_head(previous):
                lines.append("")
            elif kind == "indented":
                lines += ["::", ""]
        lines.append(f"    {line}" if kind == "example" else line)
        previous = line
        paragraph = line if line.strip() else paragraph
    return "\n".join(lines)


def _link(match: re.Match[str]) -> str:
    text = " ".join(match[1].split())
    return f"`{text} <{match[2]}>`__"


def _kind(kind: str, line: str, previous: str, paragraph: str) -> str:
    """Returns the kind of block that a line is in, after one of `kind`."""
    is_indented = line.startswith("    ")
    if _is_head(previous) and line.startswith(">>>"):
        return "example"
    if kind == "example" and line.strip():
        return kind
    if kind == "indented" and (is_indented or not line.strip()):
        return kind
    # Indented lines below a section's head are its items.
    if is_indented and not previous.strip() and paragraph[:1].strip():
        return "indented"
    if _ITEM.match(line) or (kind == "list" and line.startswith(" ")):
        return "list"
    return "text"


def _is_head(line: str) -> bool:
    """Whether a line is the head of a section, such as `Reference:`."""
    return bool(re.fullmatch(r"[A-Z][a-z ]+:", line))


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
        if ">>>" in line or line == "::":
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
