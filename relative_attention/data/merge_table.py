"""The merges of a byte-pair vocabulary, as arrays to look them up in."""

import dataclasses
from typing import Any

import numpy as np

from relative_attention.data.vocabulary import Vocabulary
from relative_attention.errors import InputError


@dataclasses.dataclass(frozen=True)
class MergeTable:
    """Holds what two symbols merge into, and which merge comes first.

    SentencePiece has no list of merges: two neighbouring pieces merge if they
    make a piece together, and the piece of the greatest score is made first.
    A symbol is the id of a piece. What spells no text (bytes, control symbols,
    the unknown piece) and pieces of the user's own never merge.

    For example, where the pieces `a`, `b`, `ab` and `aab` have the ids 3 to 6,
    the merges are `a b`, 3 and 4, into 5, and `a ab`, 3 and 5, into 6.

    Attributes:
        size: int. Number of pieces.
        symbols: int32 array, the characters of all pieces, as symbols, one
            piece after another; that of a piece that is not cut is itself.
        offsets: int64 array `(size + 1,)`. Where each piece starts in
            `symbols`, and where the last one ends.
        pairs: sorted int64 array `(num_merges,)`, `left * size + right` of the
            two symbols of each merge.
        merged: int32 array `(num_merges,)`, the symbol that each makes.
        priorities: int64 array `(num_merges,)`. The merge of the least comes
            first; of equal ones, that on the left.
        neighbours: sorted int64 array, `left * size + right` of the characters
            that stand side by side in some piece. Between all others no merge
            ever reaches.
    """

    size: int
    symbols: np.ndarray
    offsets: np.ndarray
    pairs: np.ndarray
    merged: np.ndarray
    priorities: np.ndarray
    neighbours: np.ndarray

    @classmethod
    def of(cls, vocabulary: object) -> "MergeTable":
        """Reads the merges of a vocabulary.

        Args:
            vocabulary: `Vocabulary` of byte pairs.

        Raises:
            InputError: if it is of another kind.
        """
        pieces, kinds = _pieces(vocabulary)
        ids = {
            piece.piece: token_id
            for token_id, piece in enumerate(pieces)
            if piece.type == kinds.NORMAL
        }
        size = len(pieces)
        symbols: list[list[int]] = []
        merges: list[tuple[int, int, float]] = []
        neighbours: set[int] = set()
        for token_id, piece in enumerate(pieces):
            text = piece.piece
            characters = [ids.get(character) for character in text]
            # Cut only into characters that have ids of their own.
            whole = [known for known in characters if known is not None]
            if text not in ids or len(whole) < len(characters):
                symbols.append([token_id])
                continue
            symbols.append(whole)
            neighbours.update(
                left * size + right for left, right in zip(whole, whole[1:])
            )
            for middle in range(1, len(text)):
                left, right = ids.get(text[:middle]), ids.get(text[middle:])
                if left is not None and right is not None:
                    merges.append((left * size + right, token_id, -piece.score))
        merges.sort()
        pairs, merged, costs = zip(*merges) if merges else ((), (), ())
        return cls(
            size,
            symbols=np.array([s for row in symbols for s in row], np.int32),
            offsets=np.cumsum([0, *map(len, symbols)]),
            pairs=np.array(pairs, np.int64),
            merged=np.array(merged, np.int32),
            # Equal scores keep equal priorities.
            priorities=np.unique(costs, return_inverse=True)[1],
            neighbours=np.array(sorted(neighbours), np.int64),
        )

    def pair(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Returns the numbers of pairs of symbols, an int64 array `(M,)`.

        Args:
            left: int array `(M,)`, the left symbols.
            right: int array `(M,)`, the right ones.
        """
        return left.astype(np.int64) * self.size + right


def _pieces(vocabulary: object) -> tuple[list[Any], Any]:
    """Returns the pieces of a byte-pair model, and the names of their kinds.

    Raises:
        InputError: if a vocabulary is no such model.
    """
    from sentencepiece import sentencepiece_model_pb2

    kind = type(vocabulary).__name__
    if isinstance(vocabulary, Vocabulary):
        # protobuf makes the classes of the module when it is imported.
        proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
        proto.ParseFromString(vocabulary.model)
        kinds = type(proto).SentencePiece
        pieces = list(proto.pieces)
        spec = proto.trainer_spec
        kind = f"a SentencePiece model, {spec.ModelType.Name(spec.model_type)}"
        if any(piece.type == kinds.UNUSED for piece in pieces):
            kind += " with unused pieces"
        elif spec.model_type == spec.BPE:
            return pieces, kinds
    raise InputError(
        "Subword sampling needs a SentencePiece vocabulary of byte pairs (BPE) "
        f"without unused pieces. Received: {kind}. Give such a vocabulary, or "
        "leave `vocabulary.sampling` at 0."
    )


def find(keys: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns where keys stand in a sorted array, and whether they do.

    Args:
        keys: sorted int64 array.
        wanted: int64 array `(B,)`.

    Returns:
        Pair of an int64 array `(B,)` of places in `keys`, and a bool array
        `(B,)`; the place of a key that is not there means nothing.
    """
    if not len(keys):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), bool)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return places, keys[places] == wanted
