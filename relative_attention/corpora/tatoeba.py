"""Splits the archives of everyday sentences that bundled models learned from.

An archive of www.manythings.org/anki has pairs that contributors of tatoeba.org
wrote, under CC BY 2.0 FR. Of the pairs that are for validation and test, the
package has hashes, not the text: all who have the archive get the same split.
"""

import dataclasses
import hashlib
import pathlib
import unicodedata
import zipfile
import zlib
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator

from relative_attention.data.lines import decode_lines
from relative_attention.errors import InputError
from relative_attention.files import atomic_directory
from relative_attention.files import write_lines

_HASHES = pathlib.Path(__file__).with_name("tatoeba_pairs")
_HELD_OUT = ("val", "test")
# One in 400,000 archives has a pair that is taken for another, stored one.
_HASH_BYTES = 6
# The last one is of archives with a password.
_ZIP_ERRORS = (OSError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError)

Pair = tuple[str, str]
# The side of a pair, and letters and digits of a sentence.
_Sentence = tuple[int, str]


@dataclasses.dataclass(frozen=True)
class _Archive:
    """What an archive has, and its date when pairs were chosen from it."""

    text: str
    language: str
    date: str

    @property
    def name(self) -> str:
        return f"en-{self.language}"


_ARCHIVES = (
    _Archive("deu.txt", "de", "2018-05-13"),
    _Archive("fra.txt", "fr", "2019-04-07"),
)


def split_tatoeba(
    archive: pathlib.Path | str,
    output: pathlib.Path | str,
    report: Callable[[str], object] = print,
) -> pathlib.Path:
    """Writes the training, validation and test text of an archive.

    Letters and their accents are composed (NFC), blanks of all kinds become one
    blank, and of equal pairs one is kept. `val` and `test` have the pairs whose
    hashes are stored, in the stored order. Pairs that share a sentence on
    either side are a group, whatever its case and punctuation; the other pairs
    of the groups of `val` and `test` are left out, so no sentence is in two
    texts. All other pairs are `train`, in the order of their hashes, as an
    archive begins with its shortest sentences.

    Args:
        archive: path of `deu-eng.zip` or `fra-eng.zip`.
        output: path of a folder. In it, `tatoeba/en-de` or `tatoeba/en-fr` gets
            `train.en`, `train.de` and so on, where recipes look for them.
        report: function to call with a line on each text. Lines say how many of
            the stored pairs an archive of another date lacks. Defaults to
            `print`.

    Returns:
        `pathlib.Path` of the folder of the texts.

    Raises:
        InputError: if the texts exist, the file is no such archive, or it has
            no pair of `val` or of `test`.
    """
    kind, pairs = _read(pathlib.Path(archive))
    folder = pathlib.Path(output, "tatoeba", kind.name)
    if folder.exists():
        raise InputError(
            f"{folder} exists. Name another folder, or delete this one."
        )
    by_hash = {pair_hash(pair): pair for pair in pairs}
    texts = {}
    for part in _HELD_OUT:
        stored = _stored_hashes(kind.name, part)
        texts[part] = [by_hash[each] for each in stored if each in by_hash]
        if not texts[part]:
            raise InputError(
                f"{archive} has none of the {len(stored):,} pairs that are to "
                f"be in {part}. It must be an archive of "
                f"www.manythings.org/anki like that of {kind.date}."
            )
        report(_describe(part, len(texts[part]), len(stored), kind))
    group_of = _groups(pairs)
    held_out = {group_of[pair] for part in _HELD_OUT for pair in texts[part]}
    texts["train"] = [
        by_hash[each]
        for each in sorted(by_hash)
        if group_of[by_hash[each]] not in held_out
    ]
    num_written = sum(map(len, texts.values()))
    report(
        f"train: {len(texts['train']):,} pairs; {len(pairs) - num_written:,} "
        "are left out, as they share a sentence with val or test"
    )
    with atomic_directory(folder) as temporary:
        for part, chosen in texts.items():
            for side, language in enumerate(("en", kind.language)):
                lines = (pair[side] for pair in chosen)
                write_lines(temporary / f"{part}.{language}", lines)
    return folder


def pair_hash(pair: Pair) -> bytes:
    """Returns what is stored of a pair, six bytes.

    The files of the package are these of all pairs of a text, in their order:

    >>> english, german = "I know.", "Ich weiß."
    >>> pair_hash((english, german)).hex()
    '0fa959524212'
    """
    text = "\t".join(pair).encode("utf-8")
    return hashlib.blake2b(text, digest_size=_HASH_BYTES).digest()


def _stored_hashes(name: str, part: str) -> list[bytes]:
    content = (_HASHES / f"{name}.{part}").read_bytes()
    return [
        content[start : start + _HASH_BYTES]
        for start in range(0, len(content), _HASH_BYTES)
    ]


def _describe(part: str, found: int, stored: int, kind: _Archive) -> str:
    if found == stored:
        return f"{part}: {found:,} pairs"
    return (
        f"{part}: {found:,} pairs; the archive lacks {stored - found:,} of the "
        f"{stored:,} stored ones, so it is not that of {kind.date}, and scores "
        "cannot be compared with those of bundled models"
    )


def _read(path: pathlib.Path) -> tuple[_Archive, list[Pair]]:
    """Returns what an archive is, and its pairs, each once."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            for kind in _ARCHIVES:
                if kind.text in names:
                    with archive.open(kind.text) as file:
                        lines = decode_lines(file, f"{kind.text} in {path}")
                        pairs = dict.fromkeys(_pairs(lines, kind.text, path))
                    return kind, list(pairs)
    except FileNotFoundError as error:
        raise InputError(f"No such file: {path}.") from error
    except _ZIP_ERRORS as error:
        raise InputError(f"{path} is no whole zip archive: {error}.") from error
    known = " or ".join(kind.text for kind in _ARCHIVES)
    raise InputError(
        f"{path} must have a file {known}, as deu-eng.zip and fra-eng.zip of "
        "www.manythings.org/anki. It has neither."
    )


def _pairs(
    lines: Iterable[str], name: str, path: pathlib.Path
) -> Iterator[Pair]:
    """Yields English and translation; later columns name their authors."""
    for number, line in enumerate(lines, start=1):
        columns = line.split("\t")
        if len(columns) < 2:
            raise InputError(
                f"{path}, {name}, line {number}: must be English, a tab and a "
                f"translation. Received: {line!r}."
            )
        english, other = map(_clean, columns[:2])
        if english and other:
            yield english, other


def _clean(sentence: str) -> str:
    return " ".join(unicodedata.normalize("NFC", sentence).split())


def _groups(pairs: Iterable[Pair]) -> dict[Pair, _Sentence]:
    """Returns, for each pair, a sentence that its whole group has."""
    # A union-find over sentences: each leads to another one of its group.
    leads_to: dict[_Sentence, _Sentence] = {}

    def first_of(sentence: _Sentence) -> _Sentence:
        while (after := leads_to.setdefault(sentence, sentence)) != sentence:
            leads_to[sentence] = leads_to[after]
            sentence = after
        return sentence

    for pair in pairs:
        leads_to[first_of((0, _letters(pair[0])))] = first_of(
            (1, _letters(pair[1]))
        )
    return {pair: first_of((0, _letters(pair[0]))) for pair in pairs}


def _letters(sentence: str) -> str:
    """Returns letters and digits alone, in lowercase."""
    return "".join(filter(str.isalnum, sentence.lower()))
