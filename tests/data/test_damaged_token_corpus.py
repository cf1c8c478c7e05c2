"""Ids of a corpus of which a file was cut or lost: they are made anew."""

import json
import shutil

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


@pytest.fixture(scope="module")
def whole(digits, tmp_path_factory):
    """The corpus, and a folder that holds its arrays."""
    folder = tmp_path_factory.mktemp("damaged")
    (folder / "en").write_text("3 4 5\n6\n\n7 8\n")
    (folder / "de").write_text("9 10\n11 12\n13\n14\n")
    corpus = ParallelCorpus(str(folder / "en"), str(folder / "de"))
    TokenCorpus.prepare(corpus, digits(), digits(), 10, folder / "cache")
    return corpus, folder / "cache"


@pytest.fixture
def cache(whole, tmp_path):
    return shutil.copytree(whole[1], tmp_path / "cache")


@pytest.fixture
def prepare(whole, cache, digits, no_fsync):
    """Prepared tokens, and whether anything was encoded for it."""

    def prepare():
        vocabulary = digits()
        tokens = TokenCorpus.prepare(
            whole[0], vocabulary, vocabulary, 10, cache
        )
        return tokens, vocabulary.num_calls > 0

    return prepare


def assert_made_anew(prepare):
    tokens, encoded = prepare()
    assert encoded
    assert tokens.line_numbers.tolist() == [1, 2, 4]
    assert tokens.source_ids.tolist() == [3, 4, 5, 6, 7, 8]
    assert tokens.target_ids.tolist() == [9, 10, 11, 12, 14]
    assert tokens.length_order.starts[-1] == 3
    assert tokens.num_empty == 1


@pytest.mark.parametrize(
    "name, kept",
    [(name, -1) for name in FILES]
    + [("source_ids.npy", 0), ("source_ids.npy", 5), ("counts.json", 0)],
)
def test_file_that_is_cut_is_made_anew(name, kept, prepare, cache):
    content = (cache / name).read_bytes()
    (cache / name).write_bytes(content[:kept])
    assert_made_anew(prepare)
    assert not prepare()[1]


@pytest.mark.parametrize("name", ["source_ids.npy", "counts.json"])
def test_file_that_is_lost_is_made_anew(name, prepare, cache):
    (cache / name).unlink()
    assert_made_anew(prepare)


@pytest.mark.parametrize("name", [n for n in FILES if n.endswith("npy")])
def test_array_of_another_length_is_made_anew(name, prepare, cache):
    array = np.load(cache / name)
    np.save(cache / name, array[..., :-1])
    assert_made_anew(prepare)


@pytest.mark.parametrize("name", [n for n in FILES if n.endswith("npy")])
def test_array_with_other_numbers_is_made_anew(name, prepare, cache):
    array = np.load(cache / name)
    array.flat[1] += 1
    np.save(cache / name, array)
    assert_made_anew(prepare)


@pytest.mark.parametrize(
    "counts",
    [
        None,
        {},
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
