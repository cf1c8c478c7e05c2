"""Downloads the corpora of WMT 2014 that the paper learnt from.

`tensorflow-datasets` and sacreBLEU do the work, since both know the checksum of
each download. `mtdata` 0.5.1 has fewer lines to it, but compares no checksum,
begins an interrupted download anew, and takes files from a server whose
certificate is wrong. Hugging Face's `datasets` 5.2 goes on with a download, but
compares checksums only of corpora that record them, and reads a copy of the
corpus in place of the publishers' files.
"""

import contextlib
import dataclasses
import hashlib
import os
import pathlib
import shutil
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from relative_attention.atomic_files import atomic_file
from relative_attention.corpora.sacrebleu_text import sacrebleu_text
from relative_attention.corpora.tensorflow_datasets_text import (
    check_tensorflow_datasets,
)
from relative_attention.corpora.tensorflow_datasets_text import (
    open_translations,
)
from relative_attention.data.lines import count_lines
from relative_attention.data.lines import read_lines
from relative_attention.errors import InputError

_CHECKSUMS = "SHA256SUMS"
_REPORT_EVERY = 30.0  # Seconds.


@dataclasses.dataclass(frozen=True)
class _Corpus:
    """Describes a corpus: its origin, and what getting it takes.

    Attributes:
        source: string. The language to translate from.
        target: string. The language to translate to.
        dataset: string. Its name in `tensorflow-datasets`.
        num_pairs: int. Number of pairs, to show the progress.
        download_gigabytes: float. Size of the downloads.
        disk_gigabytes: float. Size of the downloads, the unpacked files, the
            files of `tensorflow-datasets`, which are there twice for a while,
            and the text.
        hours: string. About how long it takes.
        memory_gigabytes: int. Memory that `tensorflow-datasets` needs to read
            the largest part.
    """

    source: str
    target: str
    dataset: str
    num_pairs: int
    download_gigabytes: float
    disk_gigabytes: float
    hours: str
    memory_gigabytes: int


_CORPORA = {
    "wmt14_en_de": _Corpus(
        source="en",
        target="de",
        dataset="wmt14_translate/de-en",
        num_pairs=4_508_785,
        download_gigabytes=1.7,
        disk_gigabytes=13,
        hours="half an hour to an hour",
        memory_gigabytes=4,
    ),
    "wmt14_en_fr": _Corpus(
        source="en",
        target="fr",
        dataset="wmt14_translate/fr-en",
        num_pairs=40_836_715,
        download_gigabytes=6.6,
        disk_gigabytes=75,
        hours="three to six hours",
        memory_gigabytes=32,
    ),
}
# Name of the part, name in sacreBLEU, and number of lines.
_TEST_SETS = (
    ("newstest2013", "wmt13", 3000),
    ("newstest2014", "wmt14/full", 3003),
)


def wmt14_corpora() -> list[str]:
    """Returns the names of the corpora that `fetch_wmt14` knows."""
    return list(_CORPORA)


def fetch_wmt14(
    name: str,
    output: pathlib.Path | str,
    report: Callable[[str], object] = print,
) -> pathlib.Path:
    """Downloads a corpus of WMT 2014, as the recipes of its name read it.

    The training text comes from `tensorflow-datasets`, newstest2013 and
    newstest2014 from sacreBLEU. Both compare downloads with checksums. A part
    that is complete already, by the checksums written beside it, is left
    alone, so that the same call goes on where another one ended.

    Args:
        name: string. One of `wmt14_corpora()`.
        output: path of a folder for the text: `train`, `newstest2013` and
            `newstest2014`, each with the languages as endings, a sentence a
            line. Downloads go to its folder `tensorflow_datasets`, which can
            be deleted afterwards.
        report: function that is called with lines for the log. Defaults to
            `print`.

    Returns:
        `pathlib.Path` of the folder.

    Raises:
        InputError: if the name is unknown, there is too little room on the
            disk, a package is missing, or a download fails or is damaged.
    """
    if name not in _CORPORA:
        raise InputError(
            f"Unknown corpus {name!r}. Known: {', '.join(_CORPORA)}."
        )
    corpus = _CORPORA[name]
    output = pathlib.Path(output)
    texts = _Texts(output, (corpus.source, corpus.target))
    parts = ["train", *(part for part, _, _ in _TEST_SETS)]
    missing = [part for part in parts if not texts.is_complete(part)]
    for part in parts:
        if part not in missing:
            report(f"{part}: complete")
    if "train" in missing:
        check_tensorflow_datasets()
        _check_disk_space(corpus, output, report)
    # The small ones come first, so that errors show early.
    for part, test_set, num_lines in _TEST_SETS:
        if part in missing:
            lines = sacrebleu_text(
                test_set, f"{corpus.source}-{corpus.target}", num_lines
            )
            texts.write(part, lines)
            report(f"{part}: {num_lines:,} pairs")
    if "train" in missing:
        pairs = open_translations(
            corpus.dataset,
            (corpus.source, corpus.target),
            output / "tensorflow_datasets",
            report,
        )
        written = texts.write(
            "train", _with_progress(pairs, corpus.num_pairs, report)
        )
        report(f"train: {written:,} pairs")
    return output


class _Texts:
    """Writes pairs of text files to a folder, with their checksums.

    Args:
        folder: path of the folder.
        languages: pair of strings, the endings of the files.
    """

    def __init__(self, folder: pathlib.Path, languages: Sequence[str]) -> None:
        self.folder = folder
        self.languages = languages

    def names(self, part: str) -> list[str]:
        """Returns the names of both files of a part."""
        return [f"{part}.{language}" for language in self.languages]

    def is_complete(self, part: str) -> bool:
        """Returns whether both files are there as they were written."""
        known = self._checksums()
        return all(
            name in known
            and (self.folder / name).is_file()
            and _sha256(self.folder / name) == known[name]
            for name in self.names(part)
        )

    def write(self, part: str, pairs: Iterable[Sequence[str]]) -> int:
        """Writes both files, or neither of them.

        Args:
            part: string. `train`, for example.
            pairs: iterable of pairs of lines.

        Returns:
            int. Number of pairs.
        """
        paths = [self.folder / name for name in self.names(part)]
        count = 0
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(atomic_file(path)) for path in paths]
            for pair in pairs:
                count += 1
                for file, line in zip(files, pair):
                    file.write(line.encode("utf-8") + b"\n")
        for path in paths:
            # Read once more, as the recipes will read it.
            if count_lines(path) != count:
                raise InputError(
                    f"{path} has other lines than the {count:,} written to it."
                )
        known = self._checksums()
        known |= {path.name: _sha256(path) for path in paths}
        with atomic_file(self.folder / _CHECKSUMS, "w") as file:
            for name, checksum in sorted(known.items()):
                file.write(f"{checksum}  {name}\n")
        return count

    def _checksums(self) -> dict[str, str]:
        """Returns the checksums that `write` noted, by file name.

        The file has the format of `sha256sum -c`.
        """
        path = self.folder / _CHECKSUMS
        if not path.is_file():
            return {}
        pairs = (line.split("  ", 1) for line in read_lines(path))
        return {pair[1]: pair[0] for pair in pairs if len(pair) == 2}


def _check_disk_space(
    corpus: _Corpus, output: pathlib.Path, report: Callable[[str], object]
) -> None:
    """Raises `InputError` if a corpus does not fit on the disk."""
    present = _bytes_in(output) / 1e9
    needed = max(corpus.disk_gigabytes - present, 0)
    output.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(output).free / 1e9
    report(
        f"{corpus.num_pairs:,} pairs: about {corpus.download_gigabytes} GB to "
        f"download and {corpus.disk_gigabytes} GB on disk ({present:.1f} GB "
        f"are there, {free:.0f} GB are free), {corpus.memory_gigabytes} GB of "
        f"memory, {corpus.hours} (not measured: it depends on the line)"
    )
    if free < needed:
        raise InputError(
            f"{output} has too little room: {free:.1f} GB are free, about "
            f"{needed:.0f} GB are needed. Make room, or choose a folder "
            "on another disk with `--output`."
        )


def _with_progress(
    pairs: Iterable[Sequence[str]],
    total: int,
    report: Callable[[str], object],
) -> Iterator[Sequence[str]]:
    """Yields pairs, and reports from time to time how many there were."""
    start = last = time.monotonic()
    for count, pair in enumerate(pairs):
        if count % 10_000 == 0 and time.monotonic() - last > _REPORT_EVERY:
            last = time.monotonic()
            # Before the first pair nothing is known of the speed.
            left = ""
            if count:
                seconds = (last - start) / count * max(total - count, 0)
                left = f", {seconds / 60:.0f} minutes left"
            report(f"train: {count:,} of {total:,} pairs{left}")
        yield pair


def _bytes_in(folder: pathlib.Path) -> int:
    """Returns the size of all files in a folder and its sub-folders."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.path.getsize(os.path.join(root, name))
    return total


def _sha256(path: pathlib.Path) -> str:
    """Returns the SHA-256 checksum of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
