"""Rows of a new vocabulary from those of an old one."""

import numpy as np

_UNKNOWN = "<unk>"


class PieceRows:
    """Where the rows of a new vocabulary's pieces come from.

    A piece that both vocabularies have keeps its row. Another one that the
    longest pieces of the old vocabulary spell, from left to right and without
    single bytes, gets the mean of their rows: it comes to stand where its
    parts stood. The rest keep the initial values of the new model.

    `str()` of it says how many pieces are of which kind.

    Args:
        old: `Vocabulary`, or `TokenVocabulary` of SentencePiece pieces.
        new: `Vocabulary`.
        start_token_id: int. The id that sentences start with in both, if it
            is not 0. Defaults to `0`.
    """

    def __init__(self, old, new, start_token_id=0):
        old_ids = {}
        for token_id, piece in enumerate(old.pieces(range(len(old)))):
            old_ids.setdefault(piece, token_id)
        pieces = new.pieces(range(len(new)))
        self.kept = {
            token_id: old_ids[piece]
            for token_id, piece in enumerate(pieces)
            if piece in old_ids
        }
        # Padding, end of sentence and start are known by their ids.
        for token_id in (old.padding_id, new.end_id, start_token_id):
            self.kept[token_id] = token_id
        longest = max(map(len, old_ids))
        self.spelt = {}
        for token_id, piece in enumerate(pieces):
            if token_id not in self.kept:
                parts = _spell(piece, old_ids, longest)
                if parts:
                    self.spelt[token_id] = parts
        self.size = len(new)

    def of(self, old_rows, new_rows):
        """Rows of the new vocabulary.

        Args:
            old_rows: array, a row for each piece of the old vocabulary.
            new_rows: array, the initial rows of the new one.

        Returns:
            Array like `new_rows`.
        """
        rows = np.array(new_rows)
        kept = list(self.kept)
        rows[kept] = old_rows[list(self.kept.values())]
        for token_id, parts in self.spelt.items():
            rows[token_id] = old_rows[parts].mean(axis=0, dtype=np.float64)
        return rows

    def __str__(self):
        counts = [len(self.kept), len(self.spelt)]
        counts.append(self.size - sum(counts))
        kept, spelt, rest = (
            f"{count:,} ({count / self.size:.1%})" for count in counts
        )
        return (
            f"of {self.size:,} pieces, {kept} keep their rows, {spelt} get the "
            f"mean of the pieces that spell them, {rest} start anew"
        )


def _spell(piece, ids, longest):
    """Ids of the longest pieces that spell a piece; empty if none do."""
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
