"""Draws mutations of the package by seed, for `mutations.yaml`.

    python tests/draw_mutations.py 37

Prints for each room how many of 60 mutations it gets by its lines of code, at
least two, and mutations in the order to take them in. One is passed over only
if nobody could notice it, or if its code is about to go.
"""

import ast
import pathlib
import random
import sys
from collections.abc import Iterator

from mutations import Mutation
from mutations import as_yaml

PACKAGE = pathlib.Path(__file__).parents[1] / "relative_attention"
NUMBER = 60
LEAST = 2
OPERATORS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}
NAMES = {
    "minimum": "maximum",
    "maximum": "minimum",
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
}


Edit = tuple[int, int, str]


def main() -> None:
    """Prints the mutations of each room."""
    files = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        room = parts[0] if len(parts) > 1 else "saving"
        files.setdefault(room, []).append(path)
    sizes = {room: sum(map(code_lines, files[room])) for room in files}
    for room, number in shares(sizes).items():
        print(f"# {room}: take {number}")
        rng = random.Random(f"{sys.argv[1]} {room}")
        print(as_yaml(list(drawn(room, files[room], rng))))


def code_lines(path: pathlib.Path) -> int:
    """Counts the lines on which an expression or a statement begins."""
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    return len({node.lineno for node in nodes if hasattr(node, "lineno")})


def shares(sizes: dict[str, int]) -> dict[str, int]:
    """Shares the mutations out to rooms by their sizes."""
    numbers = dict.fromkeys(sizes, LEAST)
    while sum(numbers.values()) < NUMBER:
        numbers[max(sizes, key=lambda room: sizes[room] / numbers[room])] += 1
    return numbers


def drawn(
    room: str, paths: list[pathlib.Path], rng: random.Random
) -> Iterator[Mutation]:
    """Yields one mutation of each file, their kinds in turn."""
    kinds = {}
    for path in paths:
        file = path.relative_to(PACKAGE).as_posix()
        for kind, old, new in mutations_of(path.read_text("utf-8")):
            kinds.setdefault(kind, []).append(
                Mutation(room, file, old, new, "")
            )
    for mutations in kinds.values():
        rng.shuffle(mutations)
    done = set()
    while kinds:
        for kind in rng.sample(sorted(kinds), len(kinds)):
            rest = [m for m in kinds.pop(kind) if m.file not in done]
            if rest:
                done.add(rest[0].file)
                yield rest[0]
                kinds[kind] = rest[1:]


def mutations_of(text: str) -> Iterator[tuple[str, str, str]]:
    """Yields the kind, the old and the new text of each mutation of a file."""
    # Columns of a syntax tree count bytes.
    data = text.encode()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def place(node: ast.AST) -> tuple[int, int]:
        return (
            starts[node.lineno - 1] + node.col_offset,
            starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def code(node: ast.AST) -> str:
        return data[slice(*place(node))].decode()

    def operator(left: ast.AST, right: ast.AST, kind: ast.AST) -> Edit:
        start, end = place(left)[1], place(right)[0]
        old, new = OPERATORS[type(kind)]
        return start, end, data[start:end].decode().replace(old, new, 1)

    def edits(node: ast.AST) -> Iterator[tuple[str, Edit]]:
        start, end = place(node) if hasattr(node, "lineno") else (0, 0)
        match node:
            case ast.Compare(
                left=left, ops=[kind, *_], comparators=[right, *_]
            ):
                yield "comparison", operator(left, right, kind)
            case ast.BinOp(left=left, op=kind, right=right):
                if type(kind) in OPERATORS and not is_text(left, right):
                    yield "arithmetic", operator(left, right, kind)
            case ast.BoolOp(op=kind, values=[left, right, *_]):
                yield "and, or", operator(left, right, kind)
            case ast.UnaryOp(op=ast.Not()):
                yield "not", (start, start + len("not "), "")
            case ast.Constant(value=bool()):
                yield "constant", (start, end, str(not node.value))
            case ast.Constant(value=int() | float()):
                yield "constant", (start, end, repr(node.value + 1))
            case ast.IfExp(body=body, test=test, orelse=orelse):
                new = f"{code(orelse)} if {code(test)} else {code(body)}"
                yield "branch", (start, end, new)
            case ast.If(test=test) if code(test) != "TYPE_CHECKING":
                yield "branch", (*place(test), f"not ({code(test)})")
            case ast.Name(id=name) if name in NAMES:
                yield "name", (start, end, NAMES[name])
            case ast.Attribute(attr=name) if name in NAMES:
                yield "name", (end - len(name), end, NAMES[name])
            case ast.Expr(value=ast.Call()) | ast.AugAssign():
                yield "statement", (start, end, "pass")

    for node in nodes_that_act(ast.parse(text)):
        for kind, (start, end, new) in edits(node):
            # Whole lines, with as many above as make the text the only one.
            first = data.rfind(b"\n", 0, start) + 1
            last = data.find(b"\n", end)
            while data.count(data[first:last].lstrip()) > 1:
                first = data.rfind(b"\n", 0, first - 1) + 1
            old = data[first:last].lstrip()
            first = last - len(old)
            changed = data[first:start] + new.encode() + data[end:last]
            yield kind, old.decode(), changed.decode()


def is_text(*nodes: ast.AST) -> bool:
    """Whether one is a string, which may also be a part of a path."""
    return any(
        isinstance(node, ast.JoinedStr)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str))
        for node in nodes
    )


def nodes_that_act(node: ast.AST) -> Iterator[ast.AST]:
    """Yields all nodes below one, without messages and type hints."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(
                child, ast.Raise | ast.JoinedStr
            ):
                yield child
                yield from nodes_that_act(child)


if __name__ == "__main__":
    main()
