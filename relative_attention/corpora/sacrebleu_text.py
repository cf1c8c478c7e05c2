"""Downloads test sets that sacreBLEU knows."""

import hashlib
import os
from typing import TYPE_CHECKING

from relative_attention.data import ParallelCorpus
from relative_attention.data.lines import count_lines
from relative_attention.errors import InputError

if TYPE_CHECKING:
    from sacrebleu.dataset.base import Dataset


def sacrebleu_text(name: str, languages: str, num_lines: int) -> ParallelCorpus:
    """Returns the pairs of a test set, downloaded unless they are there.

    They are kept in sacreBLEU's own folder, `~/.sacrebleu` or the folder that
    the environment variable `SACREBLEU` names. A damaged file that an
    interrupted download left there is replaced.

    Args:
        name: string. The test set, as sacreBLEU calls it.
        languages: string, `en-de` for example.
        num_lines: int. Number of lines that the test set must have.

    Returns:
        `ParallelCorpus`.

    Raises:
        InputError: if the test set cannot be downloaded, or has another
            checksum or number of lines than it must have.
    """
    from sacrebleu.dataset import DATASETS

    dataset = DATASETS[name]
    # sacreBLEU has no address for some test sets, though for all of WMT's.
    address = (dataset.data or [name])[0]
    try:
        _remove_damaged_download(dataset)
        _fetch(dataset, languages)
        files = [
            dataset.get_source_file(languages),
            *dataset.get_reference_files(languages),
        ]
        if any(count_lines(file) != num_lines for file in files):
            # The text was cut short. The files that it is made of are whole:
            # their checksums have been compared.
            dataset.process_to_text(languages)
    except (OSError, EOFError, SystemExit) as error:
        # sacreBLEU ends the process when a checksum is wrong.
        raise InputError(
            f"sacreBLEU cannot get the test set {name}: {error}. Is there a "
            f"connection to {address}? If it is damaged, delete "
            f"{dataset._outdir}, and try again."
        ) from error
    source, target = files
    counts = [count_lines(file) for file in files]
    if counts != [num_lines, num_lines]:
        raise InputError(
            f"The test set {name} must have {num_lines:,} lines. Received: "
            f"{counts[0]:,} and {counts[1]:,}. Delete {dataset._outdir}, and "
            "try again."
        )
    return ParallelCorpus(source, target)


def _fetch(dataset: "Dataset", languages: str) -> None:
    """Downloads and unpacks a test set, each unless it is done.

    sacreBLEU unpacks only what it has just downloaded.
    """
    from sacrebleu.utils import extract_tarball

    dataset.maybe_download()
    raw = dataset._rawdir
    parts = [os.path.join(raw, part) for part in dataset.langpairs[languages]]
    if not all(map(os.path.isfile, parts)):
        for archive in _archives(dataset):
            extract_tarball(archive, raw)


def _remove_damaged_download(dataset: "Dataset") -> None:
    """Removes archives that have another checksum than they must have.

    sacreBLEU compares the checksums only of what it has just downloaded.
    """
    for archive, expected in zip(_archives(dataset), dataset.md5 or []):
        if not os.path.isfile(archive):
            continue
        with open(archive, "rb") as file:
            found = hashlib.file_digest(file, "md5").hexdigest()
        if found != expected:
            os.unlink(archive)


def _archives(dataset: "Dataset") -> list[str]:
    """Returns the paths of the archives that a test set is downloaded as."""
    return [
        os.path.join(dataset._rawdir, dataset._get_tarball_filename(url))
        for url in dataset.data or []
    ]
