"""Makes training, validation and test texts of pairs: cleaned, without doubles.

The package has hashes of the pairs in the validation and test texts of bundled
models, not the texts. So all users with the same archive of
www.manythings.org/anki get the same texts.
"""

import array
import contextlib
import dataclasses
import hashlib
import itertools
import pathlib
import re
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from relative_attention.argument_checks import checked_at_least
from relative_attention.argument_checks import checked_number
from relative_attention.corpora.pair_files import PairFiles
from relative_attention.data.split import LEFT_OUT
from relative_attention.data.split import TRAIN
from relative_attention.data.split import Pair
from relative_attention.data.split import split_pairs
from relative_attention.errors import InputError
from relative_attention.files import atomic_directory
from relative_attention.files import check_is_free
from relative_attention.schema import unknown
from relative_attention.text.form import HAN
from relative_attention.text.form import OTHERS_WITHOUT_BLANKS
from relative_attention.text.form import clean_text

# Yields the same pairs, and may show how many are done. Takes pairs, and their
# number or `None`.
Watch: TypeAlias = Callable[[Iterable[Pair], int | None], Iterable[Pair]]

# Test pairs are chosen first, so they do not depend on the size of `val`.
_HELD_OUT = ("test", "val")
_PARTS = {TRAIN: "train", 2: "val", 1: "test"}
_NUM_HELD_OUT = 2000
# Beside the parts that `split_pairs` knows.
_DOUBLE = -2
_NO_BLANKS = HAN + OTHERS_WITHOUT_BLANKS
_find_words = re.compile(rf"[{_NO_BLANKS}]|[^\s{_NO_BLANKS}]+")
_find_language = re.compile("[A-Za-z]+(?:[-_][A-Za-z0-9]+)*")
_MOST_SHOWN = 60
# For each pair of languages the hashes of the pairs of `val` and of `test`.
_HASHES = pathlib.Path(__file__).with_name("tatoeba_pairs")
_HASH_BYTES = 6
# The archives of which they were chosen.
_ARCHIVES = {
    "en-de": "deu-eng.zip of 2018-05-13",
    "en-es": "spa-eng.zip of 2018-05-13",
    "en-fr": "fra-eng.zip of 2019-04-07",
    "en-ja": "jpn-eng.zip of 2020-11",
    "en-zh": "cmn-eng.zip of 2021-01",
}


@dataclasses.dataclass
class LeftOut:
    """Pairs that are left out for the same reason.

    Attributes:
        reason: string.
        count: int. How many there are.
        example: the first of them, or `None`.
    """

    reason: str
    count: int = 0
    example: Pair | None = None

    def add(self, pair: Pair) -> None:
        """Counts a pair."""
        self.count += 1
        self.example = self.example or pair

    def __str__(self) -> str:
        text = f"{self.count:,} {self.reason}"
        if self.example is None:
            return text
        source, target = map(_shortened, self.example)
        return f"{text}, such as {source} and {target}"


@dataclasses.dataclass(frozen=True)
class PairsReport:
    """What was made of pairs; all counts together are `num_read`.

    Attributes:
        num_read: int. The number of pairs of the files.
        left_out: list of `LeftOut`.
        parts: dict of the number of pairs of `train`, `val` and `test`.
        files: dict of the names of the two files of each part that has pairs.
        note: string, how the split differs from a stored one, or `None`.
    """

    num_read: int
    left_out: Sequence[LeftOut]
    parts: dict[str, int]
    files: dict[str, list[str]]
    note: str | None = None

    def __str__(self) -> str:
        counts = [
            f"{name}: {count:,} {'pair' if count == 1 else 'pairs'}"
            for name, count in {"read": self.num_read, **self.parts}.items()
        ]
        left_out = [f"left out: {kind}" for kind in self.left_out]
        notes = [] if self.note is None else [self.note]
        return "\n".join([counts[0], *left_out, *counts[1:], *notes])


def write_pairs(
    files: Sequence[pathlib.Path | str],
    output: pathlib.Path | str,
    languages: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    delimiter: str | None = None,
    keep_equal: bool = False,
    max_words: int = 80,
    max_ratio: float = 9,
    val: int | None = None,
    test: int | None = None,
    seed: int | None = None,
    split_as: str | None = None,
    watch: Watch = lambda pairs, total: pairs,
) -> PairsReport:
    """Writes training, validation and test texts of the pairs of files.

    All text is brought into one form (`clean_text`). Pairs are left out if a
    side is empty, if both sides are equal, or by the measures of Moses'
    `clean-corpus-n`: a side is too long, or has many more words than the other.
    Each character of a script without blanks between words, such as Chinese,
    is a word. Of equal pairs the first is kept. `split_pairs` splits the
    others, so that no sentence of either side is in two parts. Pairs keep their
    order.

    In memory there are hashes, some 160 bytes of each pair, and not the text.
    For a while the disk has the text twice.

    Args:
        files: list of paths, as for `PairFiles`.
        output: path of a new folder. It gets `train`, `val` and `test`, with
            the languages as endings, such as `train.en`.
        languages: two strings, the endings of source and target, and which
            languages of a translation memory. Defaults to `None`: `source` and
            `target`, or the languages of `split_as`.
        columns: as for `PairFiles`.
        delimiter: as for `PairFiles`.
        keep_equal: bool. Whether pairs are kept whose sides are equal. Defaults
            to `False`.
        max_words: int. The most words of a side. Defaults to `80`.
        max_ratio: float. How many times the words of a side the other one may
            have. Defaults to `9`.
        val: int. The number of validation pairs; there are a tenth of all pairs
            at most, and one at least unless it is 0. Defaults to `None`, 2,000.
        test: int. The number of test pairs, like `val`.
        seed: int. Another one chooses other pairs. Defaults to `None`, 1.
        split_as: string. The name of a bundled model, whose validation and test
            pairs are chosen, in place of the three above. Defaults to `None`.
        watch: function of an iterable of pairs and their number, or `None` if
            it is not known. It returns the same pairs and may show how many are
            done. Defaults to one that shows nothing.

    Returns:
        `PairsReport`.

    Raises:
        InputError: if the folder exists, a file is not usable, or no pair is
            left to train on.
        ValueError: if an argument is wrong.
    """
    check_is_free(output)
    stored = None if split_as is None else _StoredSplit.load(split_as)
    sizes = [
        checked_at_least(name, _NUM_HELD_OUT if size is None else size, 0)
        for name, size in zip(_HELD_OUT, (test, val))
    ]
    if stored is not None and (val, test, seed) != (None, None, None):
        raise ValueError(
            "`split_as` chooses all that is held out: leave out `val`, `test` "
            "and `seed`."
        )
    seed = checked_at_least("seed", 1 if seed is None else seed, 0)
    checked_number("seed", seed, lambda n: n < 2**64, "below 2**64")
    if languages is None and stored is not None:
        languages = stored.languages
    endings = _checked_endings(languages or ("source", "target"), stored)
    pairs = PairFiles(files, languages, columns, delimiter)
    cleaner = _Cleaner(keep_equal, max_words, max_ratio)
    with atomic_directory(output) as folder:
        path = folder / "cleaned"
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.writelines(cleaner.lines(watch(pairs, None)))
        is_first = cleaner.are_first()
        distinct = watch(
            itertools.compress(_read(path), is_first.data), int(is_first.sum())
        )
        parts = np.full(len(is_first), _DOUBLE, np.int8)
        if stored is None:
            parts[is_first] = split_pairs(distinct, sizes, seed)
        else:
            parts[is_first] = stored.choose(distinct, endings)
        dropped = {
            _DOUBLE: LeftOut("that are doubles"),
            LEFT_OUT: LeftOut("with a sentence of val or test"),
        }
        counts = {
            name: int(np.sum(parts == part)) for part, name in _PARTS.items()
        }
        left_out = [*cleaner.left_out, *dropped.values()]
        note = None if stored is None else stored.check(counts)
        if not counts["train"]:
            reasons = "; ".join(f"{one}" for one in left_out if one.count)
            raise InputError(
                f"No pair is left to train on, of {cleaner.num_read:,} that "
                f"were read. Left out: {reasons or 'none'}."
            )
        names = {
            name: [f"{name}.{ending}" for ending in endings]
            for name, count in counts.items()
            if count
        }
        _write(folder, watch(_read(path), len(parts)), parts, names, dropped)
        path.unlink()
    return PairsReport(cleaner.num_read, left_out, counts, names, note)


class _Cleaner:
    """Cleans pairs, and counts those that are left out.

    Attributes:
        num_read: int.
        left_out: list of `LeftOut`.
    """

    def __init__(
        self, keep_equal: bool, max_words: int, max_ratio: float
    ) -> None:
        self._keep_equal = keep_equal
        self._max_words = checked_at_least("max_words", max_words, 1)
        self._max_ratio = checked_number(
            "max_ratio", max_ratio, lambda n: n >= 1, "a number of at least 1"
        )
        self._empty = LeftOut("with an empty side")
        self._equal = LeftOut("with two equal sides")
        self._long = LeftOut(f"with more than {max_words:,} words on a side")
        self._unequal = LeftOut(
            f"with more than {max_ratio:g} times the words on a side"
        )
        self.num_read = 0
        self.left_out = [self._empty, self._equal, self._long, self._unequal]
        # Eight bytes of each pair, by which doubles are found: in a billion
        # pairs there are two with the same by chance in one of 40 cases.
        self._hashes = array.array("Q")

    def lines(self, pairs: Iterable[Pair]) -> Iterator[str]:
        """Yields the pairs that stay, each a line with a tab."""
        for source, target in pairs:
            self.num_read += 1
            pair = clean_text(source), clean_text(target)
            kind = self._reason(pair)
            if kind is not None:
                kind.add(pair)
                continue
            line = "\t".join(pair) + "\n"
            found = hashlib.blake2b(line.encode(), digest_size=8).digest()
            self._hashes.frombytes(found)
            yield line

    def _reason(self, pair: Pair) -> LeftOut | None:
        """Returns why a pair is left out, or `None`."""
        source, target = pair
        if not source or not target:
            return self._empty
        if source == target and not self._keep_equal:
            return self._equal
        fewer, more = sorted(len(_find_words.findall(side)) for side in pair)
        if more > self._max_words:
            return self._long
        if more > self._max_ratio * fewer:
            return self._unequal
        return None

    def are_first(self) -> np.ndarray:
        """Returns whether each pair that stays is unlike all pairs before."""
        hashes = np.frombuffer(self._hashes, np.uint64)
        _, places = np.unique(hashes, return_index=True)
        are_first = np.zeros(len(hashes), np.bool_)
        are_first[places] = True
        return are_first


def _read(path: pathlib.Path) -> Iterator[Pair]:
    """Yields the pairs of a file of `_Cleaner.lines`."""
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            source, target = line.rstrip("\n").split("\t")
            yield source, target


def _write(
    folder: pathlib.Path,
    pairs: Iterable[Pair],
    parts: np.ndarray,
    names: Mapping[str, Sequence[str]],
    dropped: Mapping[int, LeftOut],
) -> None:
    """Writes the two files of each part, and counts what is in none."""
    with contextlib.ExitStack() as stack:
        files = {
            part: [
                stack.enter_context(open(folder / name, "w", encoding="utf-8"))
                for name in names.get(_PARTS[part], ())
            ]
            for part in _PARTS
        }
        for pair, part in zip(pairs, parts.data):
            if part in dropped:
                dropped[part].add(pair)
                continue
            for file, sentence in zip(files[part], pair):
                file.write(f"{sentence}\n")


def _checked_endings(
    languages: Sequence[str], stored: "_StoredSplit | None"
) -> tuple[str, str]:
    """Returns the endings of source and target."""
    source, target = languages
    if stored is not None and {source, target} != {*stored.languages}:
        raise ValueError(
            f"`languages` must be {' and '.join(stored.languages)}, in any "
            f"order, for this split. Received: {source} and {target}."
        )
    are_codes = all(map(_find_language.fullmatch, languages))
    if not are_codes or source.lower() == target.lower():
        raise ValueError(
            "`languages` must be two codes, such as en and pt-BR. Received: "
            f"{source!r} and {target!r}."
        )
    return source, target


def _shortened(text: str) -> str:
    """Returns the representation of a text, not too long for a line."""
    return repr(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…")


# === The texts of bundled models ===


@dataclasses.dataclass(frozen=True)
class _StoredSplit:
    """Hashes of the pairs of the validation and the test text of a model.

    Attributes:
        languages: The two languages of each pair, in their order.
        hashes: A list of bytes for each of `_HELD_OUT`.
    """

    languages: tuple[str, str]
    hashes: tuple[list[bytes], list[bytes]]

    @classmethod
    def load(cls, model: str) -> "_StoredSplit":
        """Returns the split of a bundled model."""
        known = {}
        for languages in sorted(_ARCHIVES):
            first, second = languages.split("-")
            known[f"tatoeba_{first}_{second}"] = first, second
            known[f"tatoeba_{second}_{first}"] = first, second
        if model not in known:
            raise ValueError(f"`split_as`: {unknown('model', model, [*known])}")
        first, second = known[model]
        test, val = (
            _cut((_HASHES / f"{first}-{second}.{part}").read_bytes())
            for part in _HELD_OUT
        )
        return cls((first, second), (test, val))

    def choose(
        self, pairs: Iterable[Pair], languages: tuple[str, str]
    ) -> np.ndarray:
        """Returns the parts of pairs, see `split_pairs`."""
        if languages != self.languages:
            pairs = ((target, source) for source, target in pairs)
        return split_pairs(pairs, [], stored=self.hashes)

    def check(self, counts: Mapping[str, int]) -> str | None:
        """Returns what to say of texts with these numbers of pairs."""
        lacking = []
        archive = _ARCHIVES["-".join(self.languages)]
        for part, hashes in zip(_HELD_OUT, self.hashes):
            if not counts[part]:
                raise InputError(
                    f"There is none of the {len(hashes):,} pairs that are to "
                    f"be in {part}. They are of {archive}, from "
                    "www.manythings.org/anki."
                )
            if counts[part] < len(hashes):
                lacking.append(
                    f"{len(hashes) - counts[part]:,} of the {len(hashes):,} "
                    f"pairs of {part}"
                )
        if not lacking:
            return None
        return (
            f"There are not {' and '.join(lacking)} of {archive}, so scores "
            "cannot be compared with those of bundled models."
        )


def _cut(content: bytes) -> list[bytes]:
    """Returns the hashes that a file has."""
    starts = range(0, len(content), _HASH_BYTES)
    return [content[start : start + _HASH_BYTES] for start in starts]
