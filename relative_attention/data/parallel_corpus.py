"""Reads two text files that are aligned line by line."""

import dataclasses
import itertools
import pathlib
from collections.abc import Iterable
from collections.abc import Iterator
from typing import TypeVar

from relative_attention.data.lines import count_lines
from relative_attention.data.lines import read_lines
from relative_attention.errors import InputError

_Item = TypeVar("_Item")


@dataclasses.dataclass(frozen=True)
class ParallelCorpus:
    """Reads pairs of lines that are translations of one another.

    Attributes:
        source: string. Path of the source text, plain or `.gz`.
        target: string. Path of the target text, whose line `n` translates
            line `n` of the source.
    """

    source: str
    target: str

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yields each `(source, target)` pair of lines, empty ones too."""
        return zip(read_lines(self.source), read_lines(self.target))

    def check(self) -> int:
        """Reads both files once, and checks that they belong together.

        Returns:
            int. Number of pairs.

        Raises:
            InputError: if a file is missing, a pipe, damaged or not UTF-8, if
                their numbers of lines differ, or if there is no line.
        """
        for path in (self.source, self.target):
            if pathlib.Path(path).is_fifo():
                raise InputError(
                    f"{path} is a pipe, which can be read but once. Give a "
                    "file, plain or .gz."
                )
        counts = [count_lines(path) for path in (self.source, self.target)]
        if counts[0] != counts[1]:
            raise InputError(
                "The two files must have a line for each other's lines. "
                f"Received: {self.source} with {counts[0]:,} lines, "
                f"{self.target} with {counts[1]:,}."
            )
        if counts[0] == 0:
            raise InputError(
                f"{self.source} and {self.target} are empty: there must be a "
                "line in each."
            )
        return counts[0]


def batched(iterable: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Yields the items of an iterable as lists of up to `size` items."""
    iterator = iter(iterable)
    while batch := list(itertools.islice(iterator, size)):
        yield batch
