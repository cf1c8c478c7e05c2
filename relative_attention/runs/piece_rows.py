"""Embedding rows of a new vocabulary, from those of an old one."""

from collections.abc import Mapping

import numpy as np

from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.tensor_type import Tensor


class PieceRows:
    """Tells where the rows of a new vocabulary's pieces come from.

    A piece that both vocabularies have keeps its row. Another one that the
    longest pieces of the old vocabulary spell, from left to right and without
    single bytes, gets the mean of their rows: it comes to stand where its
    parts stood. The rest keep the initial values of the new model.

    With the old pieces `the`, `cat` and `s`, `the` is copied, `cats` gets the
    mean of the rows of `cat` and `s`, and `dog` starts anew.

    `str()` of it says how many pieces are of which kind.

    Args:
        old: A `Vocabulary`, or `TokenVocabulary` of SentencePiece pieces.
        new: A `Vocabulary`.
        start_token_id: An integer, the id that sentences start with in both,
            if it is not 0. Defaults to `0`.

    Attributes:
        copied: A dict, the old id of each new id whose row is copied.
        spelt: A dict, the old ids of the parts of each new id that gets
            their mean.
    """

    def __init__(
        self, old: AnyVocabulary, new: AnyVocabulary, start_token_id: int = 0
    ) -> None:
        old_ids: dict[str, int] = {}
        for token_id, piece in enumerate(old.pieces(range(len(old)))):
            # Of a piece that stands twice the first is the one in use.
            old_ids.setdefault(piece, token_id)
        pieces = new.pieces(range(len(new)))
        self.size = len(new)
        self.copied = {
            token_id: old_ids[piece]
            for token_id, piece in enumerate(pieces)
            if piece in old_ids
        }
        # Padding, end of sentence and start are known by their ids.
        for token_id in (old.padding_id, new.end_id, start_token_id):
            self.copied[token_id] = token_id
        longest = max(map(len, old_ids))
        self.spelt: dict[int, list[int]] = {}
        for token_id, piece in enumerate(pieces):
            if token_id not in self.copied:
                parts = _spell(piece, old_ids, longest)
                if parts:
                    self.spelt[token_id] = parts

    def transfer(self, old_rows: Tensor, new_rows: Tensor) -> np.ndarray:
        """Returns the rows of the new vocabulary.

        Args:
            old_rows: An array, a row for each piece of the old vocabulary.
            new_rows: An array, the initial rows of the new one.

        Returns:
            An array like `new_rows`.
        """
        rows = np.array(new_rows)
        rows[list(self.copied)] = old_rows[list(self.copied.values())]
        for token_id, parts in self.spelt.items():
            rows[token_id] = old_rows[parts].mean(axis=0, dtype=np.float64)
        return rows

    def __str__(self) -> str:
        counts = [len(self.copied), len(self.spelt)]
        counts.append(self.size - sum(counts))
        copied, spelt, rest = (
            f"{count:,} ({count / self.size:.1%})" for count in counts
        )
        return (
            f"of {self.size:,} pieces, {copied} keep their rows, {spelt} get "
            f"the mean of the pieces that spell them, {rest} start anew"
        )


def _spell(piece: str, ids: Mapping[str, int], longest: int) -> list[int]:
    """Returns the ids of the longest pieces that spell a piece, or `[]`.

    Args:
        piece: The piece.
        ids: The pieces that may spell it, and their ids.
        longest: The length of the longest of them.
    """
    parts = []
    start = 0
    while start < len(piece):
        for end in range(min(start + longest, len(piece)), start, -1):
            if piece[start:end] in ids:
                break
        else:
            return []
        parts.append(ids[piece[start:end]])
        start = end
    return parts
