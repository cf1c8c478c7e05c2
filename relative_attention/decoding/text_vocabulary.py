"""The methods that a translator asks of a vocabulary."""

from collections.abc import Sequence
from typing import Any
from typing import Protocol


class TextVocabulary(Protocol):
    """A vocabulary that turns lines of text into token ids, and back.

    `Vocabulary` is one; a translator takes any other.
    """

    end_id: int

    def encode(self, lines: list[str], /) -> Sequence[Sequence[int]]:
        """Returns the ids of each line, without an end of sentence."""

    def decode(self, token_ids: Any, /) -> list[str]:
        """Returns the text of each row of ids, up to its end of sentence.

        Args:
            token_ids: int array `(B, T)`, padded with id 0.
        """
