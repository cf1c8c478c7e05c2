"""The split of pairs by their hashes."""

import random
import unicodedata

import numpy as np
import pytest

from relative_attention.data.split import LEFT_OUT
from relative_attention.data.split import TRAIN
from relative_attention.data.split import pair_hash
from relative_attention.data.split import split_pairs


@pytest.fixture
def text():
    """Pairs of which many share a sentence, or are the same."""
    draw = random.Random(1803)
    english = [f"idée {number}" for number in range(300)]
    pairs = [(one, f"{one} de") for one in english]
    pairs += [
        (unicodedata.normalize("NFD", f"{one.upper()}!"), f"{one} anders")
        for one in english[:100]
    ]
    pairs += [(f"{one} other", f"{one}, DE") for one in english[100:150]]
    pairs += [("yes", f"ja {number}") for number in range(7)]
    pairs += draw.sample(pairs, 40) + [("", ""), (" ", "nothing"), ("no", "")]
    draw.shuffle(pairs)
    return pairs


def sentences(pairs):
    """What is compared of the sentences of both sides."""
    return [
        {
            "".join(filter(str.isalnum, unicodedata.normalize("NFC", one)))
            for one in map(str.lower, side)
        }
        for side in zip(*pairs)
    ]


def parts_of(pairs, parts):
    """The pairs of each part."""
    return {
        part: [pair for pair, own in zip(pairs, parts) if own == part]
        for part in (LEFT_OUT, TRAIN, 1, 2)
    }


@pytest.mark.parametrize("stored", [False, True])
def test_no_sentence_is_in_two_parts(text, stored):
    parts = split_pairs(text, [30, 40])
    found = parts_of(text, parts)
    assert [len(found[part]) for part in (1, 2)] == [30, 40]
    if stored:
        # Those that are stored are chosen again.
        hashes = [[*map(pair_hash, found[part])] for part in (1, 2)]
        again = split_pairs(text, [], stored=hashes)
        # A double of a pair that is held out has its hash, too.
        assert {*np.flatnonzero(parts != again)} <= {
            *np.flatnonzero(parts == LEFT_OUT)
        }
        found = parts_of(text, again)
    sides = {part: sentences(pairs) for part, pairs in found.items()}
    for part, other in ((TRAIN, 1), (TRAIN, 2), (1, 2)):
        for side, others in zip(sides[part], sides[other]):
            assert not side & others
    # What is left out shares a sentence with what is held out.
    for pair in found[LEFT_OUT]:
        own = sentences([pair])
        assert any(
            own[side] & sides[part][side] for side in (0, 1) for part in (1, 2)
        )


def test_rare_sentences_are_held_out(text):
    found = parts_of(text, split_pairs(text, [1000, 1000]))
    # A tenth of all pairs.
    assert [len(found[part]) for part in (1, 2)] == [len(text) // 10] * 2
    for part in (1, 2):
        assert not {"yes"} & sentences(found[part])[0]
        assert all(source.strip() and target for source, target in found[part])
    assert sum(source == "yes" for source, _ in found[TRAIN]) >= 7


def test_order_of_the_pairs_does_not_matter_and_the_seed_does(text):
    def chosen(pairs, seed):
        found = parts_of(pairs, split_pairs(pairs, [20, 20], seed))
        return [{*found[part]} for part in (1, 2)]

    assert chosen(text, 1) == chosen(text[::-1], 1)
    assert chosen(text, 1) != chosen(text, 2)


def test_few_pairs_are_split():
    assert split_pairs([], [1]).tolist() == []
    assert split_pairs([("one", "eins")], [5]).tolist() == [1]
    assert (
        split_pairs([("one", "eins"), ("!?", "!")], [0, 0]).tolist() == [0] * 2
    )
    # What has no letters is compared as it is.
    pairs = [("?", "?"), ("!", "!"), ("?", "??")]
    assert sorted(split_pairs(pairs, [3]).tolist()) in ([-1, 0, 1], [0, 0, 1])


def test_hash_of_a_pair_equals_its_example():
    pair = ("I know.", "Ich weiß.")
    assert f"'{pair_hash(pair).hex()}'" in pair_hash.__doc__
