"""Corpora as token ids on disk, and damaged ones."""

import json
import os
import pathlib

import numpy as np
import pytest

from relative_attention import InputError
from relative_attention import ParallelCorpus
from relative_attention import TokenBatches
from relative_attention import TokenCorpus
from relative_attention import TokenVocabulary
from relative_attention.data import token_corpus

# Lines 2, 5 and 6 have an empty side, 4 and 7 have one of six tokens.
SOURCE = ["3 4 5", "", "6 7", "8 8 8 8 8 8", " \t ", "9", "3", "5 4"]
TARGET = ["4", "3", "5 5 5", "6", "7", "\u00a0\u3000", "9 9 9 9 9 9", "6 6"]
MAX_LENGTH = 5
ARRAYS = {
    "line_numbers": [1, 3, 8],
    "source_ids": [3, 4, 5, 6, 7, 5, 4],
    "source_offsets": [0, 3, 5, 7],
    "source_lengths": [4, 3, 3],
    "target_ids": [4, 5, 5, 5, 6, 6],
    "target_offsets": [0, 1, 4, 6],
    "target_lengths": [2, 4, 3],
}


@pytest.fixture
def write(tmp_path):
    """A function that writes two texts, and gives their corpus."""

    def write(source, target):
        paths = [tmp_path / "text.en", tmp_path / "text.de"]
        for path, lines in zip(paths, (source, target)):
            path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        return ParallelCorpus(*map(str, paths))

    return write


@pytest.fixture
def corpus(write):
    return write(SOURCE, TARGET)


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "cache" / "train"


@pytest.fixture
def prepare(digits, directory, no_fsync):
    """Prepared tokens, and whether anything was encoded for it."""

    def prepare(
        corpus, source=None, target=None, limit=MAX_LENGTH, folder=directory
    ):
        source, target = source or digits(), target or digits()
        tokens = TokenCorpus.prepare(corpus, source, target, limit, folder)
        return tokens, getattr(source, "num_calls", None) != 0

    return prepare


@pytest.fixture
def cache(corpus, prepare, directory):
    """The folder of arrays of the corpus."""
    prepare(corpus)
    return directory


def assert_whole(tokens):
    """The tokens are those of the texts above."""
    assert {name: getattr(tokens, name).tolist() for name in ARRAYS} == ARRAYS
    assert len(tokens) == 3
    assert (tokens.num_empty, tokens.num_too_long) == (3, 2)


# === What is kept ===


def test_ids_are_those_of_the_vocabularies(corpus, prepare):
    tokens, encoded = prepare(corpus)
    assert encoded
    assert_whole(tokens)


@pytest.mark.parametrize("lines", [1, 3])
def test_parts_of_any_size_make_the_same_arrays(
    lines, corpus, prepare, monkeypatch
):
    # One by one, there are parts of which nothing is left to encode.
    monkeypatch.setattr(token_corpus, "_BATCH_LINES", lines)
    monkeypatch.setattr(token_corpus, "_CHUNK", lines)
    assert_whole(prepare(corpus)[0])


@pytest.mark.parametrize("size", [65_536, 65_537])
def test_each_side_has_the_type_that_its_ids_need(size, write, prepare, digits):
    tokens, _ = prepare(write(["3 7"], [f"5 {size - 1}"]), target=digits(size))
    assert tokens.source_ids.dtype == np.uint16
    assert tokens.target_ids.dtype == (np.int32 if size > 2**16 else np.uint16)
    assert tokens.source_ids.tolist() == [3, 7]
    assert tokens.target_ids.tolist() == [5, size - 1]


def test_a_side_may_have_no_ids(write, prepare, digits):
    # As where a SentencePiece model's normalization leaves nothing.
    nothing = digits()
    nothing.encode = lambda lines: [[] for _ in lines]
    corpus = write(["3 4", "5"], ["6", "7"])
    for _ in range(2):
        tokens, _ = prepare(corpus, target=nothing)
        assert tokens.source_ids.tolist() == [3, 4, 5]
        assert tokens.target_ids.tolist() == []
        assert tokens.target_lengths.tolist() == [1, 1]


# === When it is made again ===


def test_it_is_made_again_when_its_origin_changed(corpus, prepare, cache):
    def assert_made_again():
        assert prepare(corpus)[1]
        assert not prepare(corpus)[1]

    source, origin = pathlib.Path(corpus.source), cache / "origin.json"
    for path in (source, pathlib.Path(corpus.target)):
        path.write_text("3 4 6\n" * 8)
        assert_made_again()
    stat = os.stat(source)
    os.utime(source, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1_000))
    assert_made_again()
    # Copies often keep the time.
    stat = os.stat(source)
    source.write_text("3 4\n" * 8)
    os.utime(source, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert_made_again()
    content = json.loads(origin.read_text())
    for text in (json.dumps({**content, "format": 3}), '{"files"'):
        origin.write_text(text)
        assert_made_again()


def test_it_is_made_again_when_vocabulary_or_limit_changed(
    corpus, prepare, digits
):
    prepare(corpus)
    for side in ("source", "target"):
        changed = digits(model=f"another {side}".encode())
        prepare(corpus, **{side: changed})
        assert changed.num_calls == 1
    tokens, encoded = prepare(corpus, limit=1_000)
    assert encoded
    assert tokens.line_numbers.tolist() == [1, 3, 4, 7, 8]
    assert tokens.num_too_long == 0


def test_it_is_made_again_when_tokens_or_controls_changed(write, prepare):
    # This vocabulary has no `model` that tells it from others.
    corpus = write(["a b"], ["a"])
    special = ["<blank>", "</s>", "<s>"]
    target = TokenVocabulary([*special, "a", "<unk>"])
    for words, controls, row in (
        ("ab", {}, [3, 4, 1]),
        ("ba", {}, [4, 3, 1]),
        ("ba", {"start": True}, [2, 4, 3, 1]),
        # Models of OpenNMT-tf read no end, neither here nor in a search.
        ("ba", {"start": True, "end": False}, [2, 4, 3, 0]),
    ):
        source = TokenVocabulary([*special, *words, "<unk>"], **controls)
        tokens, _ = prepare(corpus, source=source, target=target)
        inputs, labels = TokenBatches(tokens, 100).batch(np.array([0]))
        assert inputs["source_token_ids"].tolist() == [row]
        assert labels.tolist() == [[3, 1]]


# === What it knows of the pairs ===


def test_pairs_are_sorted_by_length(corpus, prepare):
    order = prepare(corpus)[0].length_order
    # Of the lengths 4 and 2, 3 and 4, 3 and 3.
    assert order.pairs.tolist() == [2, 1, 0]
    assert order.longest.tolist() == [3, 4, 4]
    assert order.difference.tolist() == [0, -1, 2]
    assert order.starts.tolist() == [0, 1, 2, 3]


# === When something goes wrong ===


def test_interruption_leaves_no_half_cache_and_the_earlier_one(
    corpus, prepare, digits, directory
):
    def interrupt(**options):
        with pytest.raises(KeyboardInterrupt):
            prepare(corpus, target=digits(error=KeyboardInterrupt()), **options)

    interrupt()
    assert os.listdir(directory.parent) == []
    assert_whole(prepare(corpus)[0])
    interrupt(limit=9)
    assert os.listdir(directory.parent) == [directory.name]
    tokens, encoded = prepare(corpus)
    assert not encoded
    assert_whole(tokens)


def test_error_counts_reasons_when_nothing_is_left(corpus, prepare, directory):
    with pytest.raises(InputError) as raised:
        prepare(corpus, limit=2)
    message = str(raised.value)
    for part in (
        corpus.source,
        corpus.target,
        "3 have an empty line",
        "5 have a line of 2 tokens",
        "`data.max_length`",
    ):
        assert part in message
    assert not directory.exists()


def test_folder_with_other_files_is_refused(corpus, prepare, directory):
    directory.mkdir(parents=True)
    (directory / "mine.txt").write_text("precious")
    with pytest.raises(InputError, match="`directory` must be a folder for"):
        prepare(corpus)
    assert (directory / "mine.txt").read_text() == "precious"


FILES = (
    "source_ids.bin",
    "source_offsets.bin",
    "target_ids.bin",
    "target_offsets.bin",
    "line_numbers.bin",
    "counts.json",
)


def assert_made_again(corpus, prepare):
    tokens, encoded = prepare(corpus)
    assert encoded
    assert_whole(tokens)


@pytest.mark.parametrize("kept", [None, 0, -1])
@pytest.mark.parametrize("name", FILES)
def test_file_that_is_lost_or_cut_is_made_again(
    name, kept, corpus, prepare, cache
):
    content = (cache / name).read_bytes()
    (cache / name).unlink()
    if kept is not None:
        (cache / name).write_bytes(content[:kept])
    assert_made_again(corpus, prepare)
    assert not prepare(corpus)[1]


@pytest.mark.parametrize("name", FILES[:-1])
def test_array_with_other_numbers_is_made_again(name, corpus, prepare, cache):
    content = bytearray((cache / name).read_bytes())
    content[0] ^= 1
    (cache / name).write_bytes(content)
    assert_made_again(corpus, prepare)
