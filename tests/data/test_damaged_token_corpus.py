"""Ids of a corpus of which a file was cut or lost: they are made anew."""

import json

import numpy as np
import pytest

from relative_attention import ParallelCorpus
from relative_attention import TokenCorpus

FILES = (
    "source_ids.npy",
    "source_offsets.npy",
    "target_ids.npy",
    "target_offsets.npy",
    "line_numbers.npy",
    "length_order.npy",
    "length_cells.npy",
    "counts.json",
)


class Digits:
    """A vocabulary of numbers that counts its calls."""

    model = b"digits"

    def __init__(self):
        self.num_calls = 0

    def __len__(self):
        return 300

    def encode(self, lines):
        self.num_calls += 1
        return [[int(word) for word in line.split()] for line in lines]


@pytest.fixture
def prepare(tmp_path):
    """Prepared tokens, and whether anything was encoded for it."""
    (tmp_path / "en").write_text("3 4 5\n6\n\n7 8\n")
    (tmp_path / "de").write_text("9 10\n11 12\n13\n14\n")
    corpus = ParallelCorpus(str(tmp_path / "en"), str(tmp_path / "de"))

    def prepare():
        digits = Digits()
        tokens = TokenCorpus.prepare(
            corpus, digits, digits, 10, tmp_path / "cache"
        )
        return tokens, digits.num_calls > 0

    return prepare


@pytest.fixture
def cache(prepare, tmp_path):
    assert prepare()[1]
    assert not prepare()[1]
    return tmp_path / "cache"


def assert_made_anew(prepare):
    tokens, encoded = prepare()
    assert encoded
    assert tokens.line_numbers.tolist() == [1, 2, 4]
    assert tokens.source_ids.tolist() == [3, 4, 5, 6, 7, 8]
    assert tokens.target_ids.tolist() == [9, 10, 11, 12, 14]
    assert tokens.length_order.starts[-1] == 3
    assert tokens.num_empty == 1
    assert not prepare()[1]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kept", [0, 5, -1, None], ids=str)
def test_file_that_is_cut_or_lost_is_made_anew(kept, name, prepare, cache):
    path = cache / name
    content = path.read_bytes()
    path.unlink()
    if kept is not None:
        path.write_bytes(content[:kept])
    assert_made_anew(prepare)


@pytest.mark.parametrize("name", [n for n in FILES if n.endswith("npy")])
def test_array_of_another_length_is_made_anew(name, prepare, cache):
    array = np.load(cache / name)
    np.save(cache / name, array[..., :-1])
    assert_made_anew(prepare)


@pytest.mark.parametrize(
    "counts",
    [
        None,
        [],
        {},
        {"num_empty": 1},
        {"num_empty": "1", "num_too_long": 0},
        {"num_empty": 1, "num_too_long": 0, "more": 1},
    ],
    ids=str,
)
def test_counts_of_another_shape_are_made_anew(counts, prepare, cache):
    (cache / "counts.json").write_text(json.dumps(counts))
    assert_made_anew(prepare)


def test_cache_that_was_being_replaced_is_found(prepare, cache):
    cache.rename(cache.with_name(".cache-abcd1234-old"))
    assert not prepare()[1]
