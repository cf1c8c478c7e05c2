"""Holds lines of a corpus out, as a validation text."""

import pathlib
from collections.abc import Sequence

import numpy as np

from relative_attention.atomic_files import atomic_directory
from relative_attention.data import ParallelCorpus
from relative_attention.errors import InputError

# The greatest share of the lines that is held out, of a small corpus.
_LARGEST_SHARE = 0.1


def hold_out(
    corpus: ParallelCorpus,
    num_lines: int,
    seed: int,
    directory: pathlib.Path | str,
) -> list[ParallelCorpus]:
    """Splits a corpus into one to train on and one to validate on.

    Lines keep their order in both.

    Args:
        corpus: `ParallelCorpus`. The corpus to split.
        num_lines: int. Number of lines to hold out; at most a tenth of all
            lines, and at least one.
        seed: int. Seed of the choice of lines.
        directory: path of a folder for the four files alone. If they are
            there already, they are used, unless one was cut or lost.

    Returns:
        List of two `ParallelCorpus`, for training and for validation.

    Raises:
        InputError: if the corpus is unusable, see `ParallelCorpus.check`.
    """
    directory = pathlib.Path(directory)
    parts = [
        ParallelCorpus(
            str(directory / f"{part}.source"), str(directory / f"{part}.target")
        )
        for part in ("train", "validation")
    ]
    if directory.is_dir() and _are_whole(parts):
        return parts
    held_out = _is_held_out(corpus.check(), num_lines, seed)
    with atomic_directory(directory) as folder:
        files = [
            [
                open(folder / f"{part}.{side}", "w", encoding="utf-8")
                for side in ("source", "target")
            ]
            for part in ("train", "validation")
        ]
        for pair, is_held_out in zip(corpus, held_out):
            for line, file in zip(pair, files[int(is_held_out)]):
                file.write(f"{line}\n")
        for file in [*files[0], *files[1]]:
            file.close()
    return parts


def _are_whole(parts: Sequence[ParallelCorpus]) -> bool:
    """Returns whether both sides of each part have as many lines."""
    try:
        for part in parts:
            part.check()
    except InputError:
        return False
    return True


def line_numbers(
    parts: Sequence[ParallelCorpus], num_lines: int, seed: int
) -> list[np.ndarray]:
    """Returns the line numbers that both parts have in the whole corpus.

    Args:
        parts: the two corpora that `hold_out` returned.
        num_lines: int, as given to `hold_out`.
        seed: int, as given to `hold_out`.

    Returns:
        List of two int arrays, with a line number, 1 first, for each line of
        a part.
    """
    total = sum(part.check() for part in parts)
    held_out = _is_held_out(total, num_lines, seed)
    return [np.flatnonzero(lines) + 1 for lines in (~held_out, held_out)]


def _is_held_out(total: int, num_lines: int, seed: int) -> np.ndarray:
    """Returns a bool array `(total,)`, `True` for lines that are held out."""
    num_lines = max(1, min(num_lines, int(total * _LARGEST_SHARE)))
    random = np.random.default_rng([seed, total])
    held_out = np.zeros(total, bool)
    held_out[random.choice(total, num_lines, replace=False)] = True
    return held_out
