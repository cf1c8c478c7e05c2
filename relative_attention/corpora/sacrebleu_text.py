"""Test sets that sacreBLEU knows."""

import hashlib
import os

from relative_attention.data import ParallelCorpus
from relative_attention.data.lines import count_lines
from relative_attention.errors import InputError


def sacrebleu_text(name, languages, num_lines):
    """The pairs of a test set, downloaded unless they are there.

    They come to sacreBLEU's own folder, `~/.sacrebleu` or what the
    environment variable `SACREBLEU` names. What an interrupted download left
    there is made good.

    Args:
        name: string. The test set, as sacreBLEU calls it.
        languages: string, `en-de` for example.
        num_lines: int. Lines that it must have.

    Returns:
        `ParallelCorpus`.

    Raises:
        InputError: if it cannot be downloaded, or is not what it should be.
    """
    from sacrebleu.dataset import DATASETS

    dataset = DATASETS[name]
    try:
        _remove_damaged_download(dataset)
        _fetch(dataset, languages)
        files = [
            dataset.get_source_file(languages),
            *dataset.get_reference_files(languages),
        ]
        if any(count_lines(file) != num_lines for file in files):
            # Text that was cut short; what it is made of has been checked.
            dataset.process_to_text(languages)
    except (OSError, EOFError, SystemExit) as error:
        # sacreBLEU ends the process when a checksum is wrong.
        raise InputError(
            f"sacreBLEU cannot get the test set {name}: {error}. Is there a "
            f"connection to {dataset.data[0]}? If it is damaged, delete "
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


def _fetch(dataset, languages):
    """Download and unpack; sacreBLEU does the second only after the first."""
    from sacrebleu.utils import extract_tarball

    dataset.maybe_download()
    raw = dataset._rawdir
    parts = [os.path.join(raw, part) for part in dataset.langpairs[languages]]
    if not all(map(os.path.isfile, parts)):
        for archive in _archives(dataset):
            extract_tarball(archive, raw)


def _remove_damaged_download(dataset):
    """sacreBLEU looks at the checksum of what it has just downloaded only."""
    for archive, expected in zip(_archives(dataset), dataset.md5):
        if not os.path.isfile(archive):
            continue
        with open(archive, "rb") as file:
            found = hashlib.file_digest(file, "md5").hexdigest()
        if found != expected:
            os.unlink(archive)


def _archives(dataset):
    return [
        os.path.join(dataset._rawdir, dataset._get_tarball_filename(url))
        for url in dataset.data
    ]
