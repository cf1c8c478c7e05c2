"""Downloads translations that `tensorflow-datasets` knows."""

import os
import pathlib
import sys
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from relative_attention.corpora.one_line import one_line
from relative_attention.errors import InputError
from relative_attention.install_hint import install_hint

# Pairs read at a time: one by one takes many times as long.
_BATCH_PAIRS = 1024


def open_translations(
    name: str,
    languages: Sequence[str],
    directory: pathlib.Path | str,
    report: Callable[[str], object],
) -> Iterator[list[str]]:
    """Returns the training pairs of a corpus, which is prepared unless it is.

    Downloads are compared with the checksums of `tensorflow-datasets` and
    kept, so that preparing can be taken up again.

    Args:
        name: string. The corpus, `wmt14_translate/de-en` for example.
        languages: pair of strings. The languages of each pair, in its order.
        directory: path of a folder for downloads and prepared files.
        report: function that is called with lines for the log.

    Returns:
        Iterator of pairs of strings, each of them one line and none empty.

    Raises:
        InputError: if the package is missing, or the corpus cannot be
            downloaded or has another checksum than it must have.
    """
    tfds = _load_package()
    builder = tfds.builder(name, data_dir=os.fspath(directory))
    if not builder.info.splits.get("train"):
        report(f"train: downloading and preparing {name}")
        try:
            builder.download_and_prepare(
                download_config=tfds.download.DownloadConfig(
                    force_checksums_validation=True
                )
            )
        except Exception as error:
            # Its readers of many formats raise errors of any kind.
            raise InputError(
                f"tensorflow-datasets cannot prepare {name}: "
                f"{type(error).__name__}: {error}. What was downloaded is "
                f"kept in {directory}; try again to go on."
            ) from error
    return _pairs(tfds, builder, languages)


def _pairs(
    tfds: Any, builder: Any, languages: Sequence[str]
) -> Iterator[list[str]]:
    """Yields the pairs of a corpus that is prepared."""
    dataset = builder.as_dataset(
        split="train",
        # One file after another, so that the text is the same every time.
        read_config=tfds.ReadConfig(
            interleave_cycle_length=1, try_autocache=False
        ),
        shuffle_files=False,
    )
    for batch in dataset.batch(_BATCH_PAIRS).as_numpy_iterator():
        for texts in zip(*(batch[language] for language in languages)):
            pair = [one_line(text.decode()) for text in texts]
            if all(pair):
                yield pair


def check_tensorflow_datasets() -> None:
    """Raises `InputError` if `tensorflow-datasets` is not installed."""
    _load_package()


def _load_package() -> Any:
    """Returns the module `tensorflow_datasets`."""
    try:
        import tensorflow_datasets as tfds
    except ImportError as error:
        raise InputError(
            "tensorflow-datasets is not installed, or lacks "
            f"something ({error}). Install it: {install_hint('wmt')}."
        ) from error
    if not sys.stderr.isatty():
        tfds.disable_progress_bar()
    return tfds
