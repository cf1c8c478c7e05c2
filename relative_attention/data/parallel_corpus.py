"""Two line-aligned text files."""

import dataclasses
import itertools

from relative_attention.data.lines import count_lines
from relative_attention.data.lines import read_lines
from relative_attention.errors import InputError


@dataclasses.dataclass(frozen=True)
class ParallelCorpus:
    """Pairs of lines that are translations of one another.

    Attributes:
        source: Path of the source text, plain or `.gz`.
        target: Path of the target text; its line `n` translates line `n`.
    """

    source: str
    target: str

    def __iter__(self):
        """Yield `(source, target)`, every line, empty ones too."""
        return zip(read_lines(self.source), read_lines(self.target))

    def check(self):
        """Read both files once, before anything is made of them.

        Returns:
            int. Number of pairs.

        Raises:
            InputError: if a file is missing, damaged or not UTF-8, if their
                numbers of lines differ, or if there is no line.
        """
        counts = [count_lines(path) for path in (self.source, self.target)]
        if counts[0] != counts[1]:
            raise InputError(
                "The two files must have a line for each other's lines. "
                f"Received: {self.source} with {counts[0]:,} lines, "
                f"{self.target} with {counts[1]:,}."
            )
        if counts[0] == 0:
            raise InputError(
                f"{self.source} and {self.target} are empty: there is nothing "
                "to learn from."
            )
        return counts[0]


def batched(iterable, size):
    """Yield lists of up to `size` items."""
    iterator = iter(iterable)
    while batch := list(itertools.islice(iterator, size)):
        yield batch
