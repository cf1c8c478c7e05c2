"""A validation text for those who have none."""

import pathlib

import numpy as np

from relative_attention.atomic_files import atomic_directory
from relative_attention.data import ParallelCorpus
from relative_attention.errors import InputError

# At most this share of the lines is held out of a small corpus.
_LARGEST_SHARE = 0.1


def hold_out(corpus, num_lines, seed, directory):
    """Split a corpus into one to train and one to validate on.

    Args:
        corpus: `ParallelCorpus`.
        num_lines: int. Lines to hold out; at most a tenth of all.
        seed: int. Which lines.
        directory: path of a folder of its own for the four files. Found there
            already, they are used, unless one was cut or lost.

    Returns:
        Pair of `ParallelCorpus`: for training, for validation.

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


def _are_whole(parts):
    """Whether no file was cut: both sides of each part have as many lines."""
    try:
        for part in parts:
            part.check()
    except InputError:
        return False
    return True


def line_numbers(parts, num_lines, seed):
    """Where the lines of both parts stand in the corpus that was split.

    Args:
        parts: what `hold_out` returned.
        num_lines, seed: what it was given.

    Returns:
        Pair of int arrays, a number (1 first) for each line of a part.
    """
    total = sum(part.check() for part in parts)
    held_out = _is_held_out(total, num_lines, seed)
    return [np.flatnonzero(lines) + 1 for lines in (~held_out, held_out)]


def _is_held_out(total, num_lines, seed):
    """Which of so many lines are held out, a bool array."""
    num_lines = max(1, min(num_lines, int(total * _LARGEST_SHARE)))
    random = np.random.default_rng([seed, total])
    held_out = np.zeros(total, bool)
    held_out[random.choice(total, num_lines, replace=False)] = True
    return held_out
