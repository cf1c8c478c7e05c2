"""Reads pairs of sentences from the files in which they are exchanged.

    file.tsv, file.txt    columns, separated by tabs
    file.csv              columns, separated by commas, in quotation marks
    file.tmx              a translation memory
    file.en file.de       two texts, line by line

Each may be compressed (`.gz`, `.bz2`, `.xz`), or be in a zip archive:
`archive.zip/file.tsv`, or `archive.zip` if it has one such file. A file is read
once, record by record, so its size is not limited by memory.
"""

import bz2
import contextlib
import csv
import gzip
import io
import itertools
import lzma
import pathlib
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import IO
from typing import Any
from typing import cast
from xml.etree.ElementTree import Element

from defusedxml import DefusedXmlException
from defusedxml import ElementTree

from relative_attention.data.lines import decode_lines
from relative_attention.data.split import Pair
from relative_attention.errors import InputError
from relative_attention.schema import unknown

# The most bytes of a line, a row or a unit of a translation memory. A longer
# one is no sentence, and would fill the memory.
MOST_BYTES = 1 << 24
_OPEN: Mapping[str, Callable[[Any], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_PAIR_KINDS = (*_DELIMITERS, ".tmx")
# Errors of reading a damaged file. The last three are errors of zip archives:
# a password, an unknown method, a name that is not UTF-8.
_DAMAGE = (
    OSError,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    struct.error,
    RuntimeError,
    NotImplementedError,
    UnicodeDecodeError,
)
# Files that describe the archive in which they are.
_about = re.compile(r"[._].*|(readme|license|copying)\b.*", re.IGNORECASE)
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_MOST_NAMED = 20


class PairFiles:
    """Yields the pairs of some files, in their order.

    Args:
        paths: list of strings or paths: files of pairs, or two texts.
        languages: two strings, which languages of a translation memory.
            `"en"` is also `"en-US"`. Defaults to `None`.
        columns: two strings, the columns of source and target: their numbers
            from 1, or their names in the first row. Defaults to `None`, the
            first two.
        delimiter: string. What separates columns. Defaults to `None`: a comma
            in `.csv`, else a tab.

    Raises:
        InputError: if a file is missing, of an unknown kind or damaged. What
            can be known without reading all of a file is said here; the rest
            when pairs are read, with the number of the line.
    """

    def __init__(
        self,
        paths: Sequence[pathlib.Path | str],
        languages: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        delimiter: str | None = None,
    ) -> None:
        self._files = [_File(path) for path in paths]
        self._languages = tuple(languages or ())
        self._columns = columns
        self._delimiter = delimiter
        kinds = [file.kind for file in self._files]
        are_pairs = [kind in _PAIR_KINDS for kind in kinds]
        self._are_texts = len(kinds) == 2 and not any(are_pairs)
        if len(kinds) > 1 and not self._are_texts and not all(are_pairs):
            raise InputError(
                "Give files of pairs, whose names end in .tsv, .csv or .tmx, "
                "or two texts that are translations of each other, line by "
                f"line. Received: {', '.join(map(str, paths))}."
            )
        are_tables = not self._are_texts and ".tmx" not in kinds
        if not are_tables and (columns is not None or delimiter is not None):
            raise InputError(
                "`columns` and `delimiter` are for files with columns. "
                f"Received: {', '.join(map(str, paths))}."
            )
        if delimiter is not None and len(delimiter) != 1:
            raise InputError(
                "`delimiter` must be one character, such as ';'. Received: "
                f"{delimiter!r}."
            )
        if ".tmx" in kinds and languages is None:
            raise InputError(
                f"{self._files[kinds.index('.tmx')].name} may have several "
                "languages: name two of them, as by `--languages en de`."
            )

    def __iter__(self) -> Iterator[Pair]:
        if self._are_texts:
            yield from _read_texts(*self._files)
            return
        for file in self._files:
            if file.kind == ".tmx":
                yield from _read_memory(file, self._languages)
            else:
                yield from self._read_table(file)

    def _read_table(self, file: "_File") -> Iterator[Pair]:
        """Yields two of the columns of a file; an empty line is a pair, too."""
        rows = _rows(file, self._delimiter or _DELIMITERS.get(file.kind, "\t"))
        places, width = None, 0
        for number, cells in rows:
            if cells in ([], [""]):
                yield "", ""
                continue
            if places is None:
                names = self._columns or ("1", "2")
                places, width = _find_columns(names, cells, file), len(cells)
                if not all(map(str.isdecimal, names)):
                    continue
            if len(cells) != width:
                raise InputError(
                    f"{file.name}, line {number}: must have {width} columns, "
                    f"as the first row. Received {len(cells)}: "
                    f"{_shortened(cells)}."
                )
            yield cells[places[0]], cells[places[1]]


class _File:
    """A file, alone or in a zip archive.

    Attributes:
        name: string. Its name in messages.
        kind: string. The ending of its name, without that of a compression.
    """

    def __init__(self, path: pathlib.Path | str) -> None:
        self.name = str(path)
        self._path = pathlib.Path(path)
        self._member: str | None = None
        if not self._path.exists():
            # A file in an archive?
            for parent in self._path.parents:
                if parent.suffix.lower() == ".zip" and parent.is_file():
                    member = self._path.relative_to(parent)
                    self._path, self._member = parent, member.as_posix()
        if self._path.is_dir():
            raise InputError(f"{path} is a folder, not a file of pairs.")
        if self._path.suffix.lower() == ".zip":
            self._member = self._find_member()
            self.name = f"{self._path}/{self._member}"
        elif not self._path.exists():
            raise InputError(f"No such file: {path}.")
        name = pathlib.Path(self._member or self._path)
        if name.suffix.lower() in _OPEN:
            name = name.with_suffix("")
        self.kind = name.suffix.lower()

    def _find_member(self) -> str:
        """Returns the name of a file in an archive."""
        with self._errors(), zipfile.ZipFile(self._path) as archive:
            names = [i.filename for i in archive.infolist() if not i.is_dir()]
        if self._member in names:
            return self._member
        known = [n for n in names if not _about.match(n.rpartition("/")[2])]
        known = [n for n in known if not n.startswith("__MACOSX/")]
        if self._member is None and len(known) == 1:
            return known[0]
        listed = ", ".join(known[:_MOST_NAMED]) or "no file of pairs"
        wanted = f"has no file {self._member}" if self._member else "is a zip"
        example = (
            f" Name one, as in {self._path}/{known[0]}, or two of lines."
            if known
            else ""
        )
        raise InputError(f"{self._path} {wanted}; it has {listed}.{example}")

    @contextlib.contextmanager
    def open(self) -> Iterator[io.BufferedReader]:
        """Opens the file, decompressed."""
        with self._errors(), contextlib.ExitStack() as stack:
            file: Any
            if self._member is None:
                file = stack.enter_context(open(self._path, "rb"))
            else:
                archive = stack.enter_context(zipfile.ZipFile(self._path))
                file = stack.enter_context(archive.open(self._member))
            opening = _OPEN.get(pathlib.Path(self.name).suffix.lower())
            if opening is not None:
                file = stack.enter_context(opening(file))
            yield io.BufferedReader(file, 1 << 18)

    def lines(self) -> Iterator[str]:
        """Yields the lines of the file, without their ends."""
        with self.open() as file:
            yield from decode_lines(self._bounded(file), self.name)

    def _bounded(self, file: io.BufferedReader) -> Iterator[bytes]:
        for number in itertools.count(1):
            line = file.readline(MOST_BYTES)
            if not line:
                return
            if len(line) == MOST_BYTES:
                raise InputError(
                    f"{self.name}, line {number}: must have less than "
                    f"{MOST_BYTES:,} bytes. Is it a text?"
                )
            yield line

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Says in one line that a file is missing, or damaged."""
        try:
            yield
        except FileNotFoundError as error:
            raise InputError(f"No such file: {self._path}.") from error
        except PermissionError as error:
            raise InputError(f"{self.name} cannot be read: {error}.") from error
        except _DAMAGE as error:
            raise InputError(
                f"{self.name} cannot be read: it is cut short, damaged or not "
                f"what its name says ({_shortened(error)})."
            ) from error


def _read_texts(source: _File, target: _File) -> Iterator[Pair]:
    """Yields the lines of two texts."""
    counts = [0, 0]
    for lines in itertools.zip_longest(source.lines(), target.lines()):
        for side, line in enumerate(lines):
            counts[side] += line is not None
        if None not in lines:
            yield cast(Pair, lines)
    if counts[0] != counts[1]:
        raise InputError(
            "The two texts must have a line for each other's lines. Received: "
            f"{source.name} with {counts[0]:,} lines, {target.name} with "
            f"{counts[1]:,}."
        )


# === Columns ===


def _rows(file: _File, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yields rows, with the numbers of their lines."""
    if file.kind != ".csv":
        for number, line in enumerate(file.lines(), start=1):
            yield number, line.split(delimiter)
        return
    # Line ends within a cell are text.
    lines = (f"{line}\n" for line in file.lines())
    csv.field_size_limit(MOST_BYTES)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error as error:
        raise InputError(
            f"{file.name}, line {reader.line_num}: {error}. A cell with "
            f"{delimiter!r}, a line end or a quotation mark must be in "
            "quotation marks, and each mark in it twice."
        ) from error


def _find_columns(
    names: Sequence[str], cells: Sequence[str], file: _File
) -> list[int]:
    """Returns the indices of two columns in a file's first row."""
    if not all(map(str.isdecimal, names)):
        cells = [cell.strip() for cell in cells]
        for name in names:
            if cells.count(name) > 1:
                raise InputError(f"{file.name} has two columns {name!r}.")
            if name not in cells:
                raise InputError(
                    f"{file.name}: {unknown('column', name, cells)} If the "
                    "first row has no names, give numbers: `--columns 1 2`."
                )
        if names[0] == names[1]:
            raise InputError(
                f"The two columns must differ. Received: {names[0]!r} twice."
            )
        return [cells.index(name) for name in names]
    numbers = [int(name) for name in names]
    if numbers[0] == numbers[1]:
        raise InputError(
            f"The two columns must differ. Received: {names[0]} twice."
        )
    if not all(1 <= number <= len(cells) for number in numbers):
        raise InputError(
            f"{file.name}, line 1: must have the columns {names[0]} and "
            f"{names[1]}. Received {len(cells)}: {_shortened(cells)}. Choose "
            "others by `--columns`, or what separates them by `--delimiter`."
        )
    return [number - 1 for number in numbers]


def _shortened(what: object) -> str:
    """Returns a row, or an error, in the length of a message."""
    text = str(what) or type(what).__name__
    return text if len(text) <= 200 else f"{text[:200]}..."


# === Translation memories ===


def _read_memory(file: _File, languages: Sequence[str]) -> Iterator[Pair]:
    """Yields a pair of each unit; what lacks a language has an empty side."""
    found: dict[str, None] = {}
    is_empty = True
    try:
        for texts in _units(file):
            if len(found) < _MOST_NAMED:
                found.update(dict.fromkeys(texts))
            pair = [_in_language(texts, one) for one in languages]
            is_empty = is_empty and not all(pair)
            yield pair[0], pair[1]
    except DefusedXmlException as error:
        raise InputError(
            f"{file.name} defines entities, by which a small file can become "
            f"a large one or read others: it is not read ({error})."
        ) from error
    except InputError:
        raise
    # The first is of XML, the others of its encoding.
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise InputError(f"{file.name} is no whole XML: {error}.") from error
    if is_empty:
        named = ", ".join(found) or "no unit with a text"
        raise InputError(
            f"{file.name} has no pair in {' and '.join(languages)}. It has: "
            f"{named}."
        )


def _units(file: _File) -> Iterator[dict[str, str]]:
    """Yields the text of each unit, by language."""
    with file.open() as opened:
        bounded = _BoundedUnits(opened, file.name)
        above: list[Element] = []
        depth = 0
        # An external DTD, which most have, is not loaded.
        for event, element in ElementTree.iterparse(
            cast(IO[bytes], bounded), ("start", "end")
        ):
            is_unit = _name(element) == "tu"
            if event == "start":
                above.append(element)
                depth += is_unit
                continue
            above.pop()
            depth -= is_unit
            if depth:
                continue
            if is_unit:
                yield _texts(element)
            # Nothing that was read stays in memory.
            bounded.size = 0
            if above:
                above[-1].clear()


class _BoundedUnits:
    """A file of which a parser reads no more than a unit may have."""

    def __init__(self, file: io.BufferedReader, name: str) -> None:
        self._file = file
        self._name = name
        self.size = 0

    def read(self, size: int = -1) -> bytes:
        content = self._file.read(size)
        self.size += len(content)
        if self.size > MOST_BYTES:
            raise InputError(
                f"{self._name}: an element must have less than "
                f"{MOST_BYTES:,} bytes. Is it a translation memory?"
            )
        return content


def _texts(unit: Element) -> dict[str, str]:
    """Returns the texts of a unit, by language."""
    texts: dict[str, str] = {}
    for variant in unit:
        # The second name is of version 1.1.
        language = variant.get(_LANGUAGE) or variant.get("lang")
        for segment in variant:
            if language and _name(segment) == "seg":
                texts.setdefault(language, _text(segment))
    return texts


def _text(segment: Element) -> str:
    """Returns the text of a segment, without the codes of a layout."""
    pieces: list[str] = []
    waiting: list[Element | str] = [segment]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            pieces.append(item)
            continue
        pieces.append(item.text or "")
        for child in reversed(item):
            waiting.append(child.tail or "")
            # Elements other than `hi` hold codes, which are left out.
            if _name(child) == "hi":
                waiting.append(child)
    return "".join(pieces)


def _in_language(texts: Mapping[str, str], language: str) -> str:
    """Returns the text of a language, or else of a region's variety of it."""
    names = [*texts]
    known = [name.lower() for name in names]
    # The part before the region, such as that of `en-US`.
    known += [re.split("[-_]", name)[0] for name in known]
    if language.lower() not in known:
        return ""
    return texts[names[known.index(language.lower()) % len(names)]]


def _name(element: Element) -> str:
    """Returns an element's name, without a namespace."""
    return str(element.tag).rpartition("}")[2].lower()
