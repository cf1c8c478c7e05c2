"""Downloads the WMT 2014 corpora that the paper used.

The training text is from `tensorflow-datasets`, newstest2013 and newstest2014
are from sacreBLEU. Both check the checksum of each download. `mtdata` 0.5.1
checks no checksums and cannot resume a download. Hugging Face's `datasets`
reads a copy of the corpus, not the publishers' files.
"""

import contextlib
import dataclasses
import os
import pathlib
import re
import shutil
import sys
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from relative_attention.data import ParallelCorpus
from relative_attention.data.lines import count_lines
from relative_attention.errors import InputError
from relative_attention.errors import check_packages
from relative_attention.files import atomic_file
from relative_attention.schema import unknown

# Pairs read at a time; reading them one by one is many times slower.
_BATCH_PAIRS = 1024
# Line ends of this package (the first two) or of `str.splitlines`.
_BREAKS = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+")
# Name of the part, name in sacreBLEU, and number of lines.
_TEST_SETS = (
    ("newstest2013", "wmt13", 3000),
    ("newstest2014", "wmt14/full", 3003),
)


@dataclasses.dataclass(frozen=True)
class _Corpus:
    """A corpus from English, and what it needs.

    `disk_gigabytes` is the sum of the downloads, the unpacked files, the text,
    and the files of `tensorflow-datasets`, of which there are temporarily two
    copies.
    """

    target: str
    num_pairs: int
    disk_gigabytes: int
    needs: str

    @property
    def languages(self) -> tuple[str, str]:
        return ("en", self.target)


_CORPORA = {
    "wmt14_en_de": _Corpus(
        target="de",
        num_pairs=4_508_785,
        disk_gigabytes=13,
        needs="1.7 GB to download, 4 GB of memory, half an hour to an hour",
    ),
    "wmt14_en_fr": _Corpus(
        target="fr",
        num_pairs=40_836_715,
        disk_gigabytes=75,
        needs="6.6 GB to download, 32 GB of memory, three to six hours",
    ),
}


def fetch_wmt14(
    name: str,
    output: pathlib.Path | str,
    report: Callable[[str], object] = print,
) -> pathlib.Path:
    """Downloads a corpus of WMT 2014, in the form that its recipes read.

    A part whose files are there is not downloaded again, so the same call
    resumes an interrupted one.

    Args:
        name: string. `"wmt14_en_de"` or `"wmt14_en_fr"`.
        output: path of a folder for the text: `train`, `newstest2013` and
            `newstest2014`, with the languages as endings and one sentence per
            line. Downloads go to its folder `tensorflow_datasets`, which can
            be deleted afterwards.
        report: function to call with lines for the log. Defaults to `print`.

    Returns:
        `pathlib.Path` of the folder.

    Raises:
        InputError: if the name is unknown, the disk is too full, a package is
            missing, or a download fails or is damaged.
    """
    if name not in _CORPORA:
        raise InputError(unknown("corpus", name, list(_CORPORA)))
    corpus = _CORPORA[name]
    output = pathlib.Path(output)
    missing = []
    for part in ("train", *(part for part, _, _ in _TEST_SETS)):
        # Files get their names when they are complete.
        if all(path.is_file() for path in _paths(output, part, corpus)):
            report(f"{part}: complete")
        else:
            missing.append(part)
    if "train" in missing:
        check_packages(
            "The training text needs `tensorflow-datasets`",
            "wmt",
            "tensorflow_datasets",
        )
        _check_disk_space(corpus, output, report)
    # The small parts come first, so that errors appear early.
    for part, test_set, num_lines in _TEST_SETS:
        if part in missing:
            pairs = _test_set(test_set, corpus, num_lines)
            _write(_paths(output, part, corpus), pairs)
            report(f"{part}: {num_lines:,} pairs")
    if "train" in missing:
        written = _write(
            _paths(output, "train", corpus),
            _training_pairs(corpus, output / "tensorflow_datasets", report),
        )
        report(f"train: {written:,} pairs")
    return output


def _paths(
    output: pathlib.Path, part: str, corpus: _Corpus
) -> list[pathlib.Path]:
    return [output / f"{part}.{language}" for language in corpus.languages]


def _write(
    paths: Sequence[pathlib.Path], pairs: Iterable[Sequence[str]]
) -> int:
    """Writes both files of a part, and returns the number of pairs."""
    count = 0
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(atomic_file(path)) for path in paths]
        for pair in pairs:
            count += 1
            for file, line in zip(files, pair):
                file.write(line.encode("utf-8") + b"\n")
    return count


def _check_disk_space(
    corpus: _Corpus, output: pathlib.Path, report: Callable[[str], object]
) -> None:
    output.mkdir(parents=True, exist_ok=True)
    # Of a run that was interrupted, some is there.
    files = [path for path in output.rglob("*") if path.is_file()]
    present = sum(path.stat().st_size for path in files) / 1e9
    free = shutil.disk_usage(output).free / 1e9
    report(
        f"{corpus.num_pairs:,} pairs: about {corpus.disk_gigabytes} GB on disk "
        f"({present:.1f} GB are there, {free:.0f} GB are free), {corpus.needs} "
        "(not measured: it depends on the line)"
    )
    if free + present < corpus.disk_gigabytes:
        raise InputError(
            f"{output} has too little room: {free:.1f} GB are free, about "
            f"{corpus.disk_gigabytes - present:.0f} GB are needed. Make room, "
            "or choose a folder on another disk with `--output`."
        )


def _test_set(name: str, corpus: _Corpus, num_lines: int) -> ParallelCorpus:
    """Returns a test set from sacreBLEU's folder, or downloads it there."""
    from sacrebleu.dataset import DATASETS

    dataset: Any = DATASETS[name]
    languages = "-".join(corpus.languages)
    try:
        source = dataset.get_source_file(languages)
        (target,) = dataset.get_reference_files(languages)
        counts = [count_lines(source), count_lines(target)]
        if counts != [num_lines, num_lines]:
            raise EOFError(f"it has {counts} lines, not {num_lines:,}")
    except (Exception, SystemExit) as error:
        # sacreBLEU ends the process when a checksum is wrong. It uses what an
        # interrupted download left. HTTP and locks have errors of their own.
        raise InputError(
            f"sacreBLEU cannot get the test set {name}: {error}. Is there a "
            f"connection to {dataset.data[0]}? If it is damaged, delete "
            f"{dataset._outdir}, and try again."
        ) from error
    return ParallelCorpus(source, target)


def _training_pairs(
    corpus: _Corpus, directory: pathlib.Path, report: Callable[[str], object]
) -> Iterator[list[str]]:
    """Yields the training pairs, each text one line, without empty ones.

    Downloads are kept, so that the preparation can be resumed.
    """
    import tensorflow_datasets as tfds

    if not sys.stderr.isatty():
        tfds.disable_progress_bar()
    name = f"wmt14_translate/{corpus.target}-en"
    builder = tfds.builder(name, data_dir=os.fspath(directory))
    if not builder.info.splits.get("train"):
        report(f"train: downloading and preparing {name}")
        config = tfds.download.DownloadConfig(force_checksums_validation=True)
        try:
            builder.download_and_prepare(download_config=config)
        except Exception as error:
            # Its readers raise many kinds of errors.
            raise InputError(
                f"tensorflow-datasets cannot prepare {name}: "
                f"{type(error).__name__}: {error}. What was downloaded is "
                f"kept in {directory}; run the command again to resume."
            ) from error
    dataset = builder.as_dataset(
        split="train",
        # In order of the files, so that the text is always the same.
        read_config=tfds.ReadConfig(
            interleave_cycle_length=1, try_autocache=False
        ),
        shuffle_files=False,
    )
    import tqdm

    with tqdm.tqdm(
        desc="train", total=corpus.num_pairs, unit=" pairs", mininterval=5
    ) as progress:
        for batch in dataset.batch(_BATCH_PAIRS).as_numpy_iterator():
            texts = [batch[language] for language in corpus.languages]
            progress.update(len(texts[0]))
            for pair in zip(*texts):
                lines = [_one_line(text.decode()) for text in pair]
                if all(lines):
                    yield lines


def _one_line(text: str) -> str:
    """Replaces line breaks by blanks, and removes blanks at the ends."""
    return _BREAKS.sub(" ", text).strip()
