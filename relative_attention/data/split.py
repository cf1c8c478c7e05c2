"""Splits pairs so that no sentence is in two parts, the same in any order."""

import hashlib
import re
import unicodedata
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence

import numpy as np

Pair = tuple[str, str]

# The parts of a split; those that are held out are 1, 2, ...
LEFT_OUT, TRAIN = -1, 0
# Each part that is held out is at most this share of all pairs.
_LARGEST_SHARE = 0.1
# A pair with a more frequent sentence is not held out: training would lose all
# other pairs with this sentence.
_MOST_OCCURRENCES = 6
# The key of a side without text, which is no sentence.
_NO_SENTENCE = 0
# One in 400,000 texts of 100,000 pairs has a pair with the hash of another,
# stored pair.
_STORED_BYTES = 6
_find_others = re.compile(r"[\W_]+")


def split_pairs(
    pairs: Iterable[Pair],
    sizes: Sequence[int],
    seed: int = 1,
    stored: Sequence[Collection[bytes]] | None = None,
) -> np.ndarray:
    """Chooses the part of each pair.

    Pairs are held out in the order of their hashes, one part after another. A
    pair is held out if each of its two sentences is in at most six pairs, and
    in no pair that is held out already. All other pairs with one of these
    sentences are left out of training. So no sentence of either side is in two
    parts. Sentences are compared by their letters and digits, ignoring case.

    The order of the pairs does not matter. In memory there are hashes of the
    pairs, and not the text.

    Args:
        pairs: iterable of pairs of source and target.
        sizes: list of ints, the most pairs of each part that is held out; a
            tenth of all pairs at most, and one at least unless it is 0.
        seed: int. Another one chooses other pairs.
        stored: for each part that is held out a collection of `pair_hash`. The
            part is all pairs with these hashes, in place of the choice above.
            Defaults to `None`.

    Returns:
        int array `(pairs,)`: for each pair `TRAIN` (0), `LEFT_OUT` (-1), or the
        number of the part that it is held out for, from 1.
    """
    key = seed.to_bytes(8, "little")
    known = {one: n for n, some in enumerate(stored or (), 1) for one in some}
    rows = bytearray()
    found = []
    for number, pair in enumerate(pairs):
        if stored is not None and (part := known.get(pair_hash(pair))):
            found.append((number, part))
        for sentence in pair:
            rows += _sentence_key(sentence)
        rows += _hash("\t".join(pair), 8, key)
    hashes = np.frombuffer(rows, "<u8").reshape(-1, 3)
    sentences = hashes[:, :2]
    if stored is None:
        most = max(1, int(len(hashes) * _LARGEST_SHARE))
        found = _chosen(sentences, hashes[:, 2], [min(n, most) for n in sizes])
    parts = np.full(len(hashes), TRAIN, np.int8)
    numbers, chosen = np.array(found, np.int64).reshape(-1, 2).T
    for side in sentences.T:
        held_out = side[numbers]
        held_out = held_out[held_out != _NO_SENTENCE]
        parts[np.isin(side, held_out)] = LEFT_OUT
    parts[numbers] = chosen
    return parts


def pair_hash(pair: Pair) -> bytes:
    """Returns what is stored of a pair, six bytes.

    >>> english, german = "I know.", "Ich weiß."
    >>> pair_hash((english, german)).hex()
    '0fa959524212'
    """
    return _hash("\t".join(pair), _STORED_BYTES)


def _chosen(
    sentences: np.ndarray, order: np.ndarray, sizes: Sequence[int]
) -> list[tuple[int, int]]:
    """Chooses the pairs of each part, as `(number, part)`."""
    is_rare = (sentences != _NO_SENTENCE).all(1)
    for side in sentences.T:
        _, places, counts = np.unique(
            side, return_inverse=True, return_counts=True
        )
        is_rare &= counts[places] <= _MOST_OCCURRENCES
    candidates = np.flatnonzero(is_rare)
    candidates = candidates[np.argsort(order[candidates], kind="stable")]
    parts = iter([n for n, size in enumerate(sizes, 1) for _ in range(size)])
    part = next(parts, None)
    taken: tuple[set[int], set[int]] = (set(), set())
    found = []
    for number in candidates.tolist():
        if part is None:
            break
        pair = sentences[number].tolist()
        if any(key in keys for key, keys in zip(pair, taken)):
            continue
        for key, keys in zip(pair, taken):
            keys.add(key)
        found.append((number, part))
        part = next(parts, None)
    return found


def _sentence_key(sentence: str) -> bytes:
    """Returns eight bytes, equal for sentences with the same letters."""
    if not sentence or sentence.isspace():
        return _NO_SENTENCE.to_bytes(8, "little")
    sentence = unicodedata.normalize("NFC", sentence)
    # What has no letter is compared as it is.
    letters = _find_others.sub("", sentence.lower()) or sentence.strip()
    return _hash(letters, 8)


def _hash(text: str, size: int, key: bytes = b"") -> bytes:
    # What UTF-8 cannot write is in no file.
    content = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=size, key=key).digest()
