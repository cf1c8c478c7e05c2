"""A corpus as token ids on disk: what is kept, and when it is made anew."""

import errno
import json
import os

import numpy as np
import pytest

from relative_attention import InputError
from relative_attention import ParallelCorpus
from relative_attention import TokenCorpus
from relative_attention import Vocabulary
from relative_attention.data import encode_corpus
from relative_attention.data import token_corpus

SOURCE = [
    "a man rides a bike .",
    "",
    "two dogs run over the grass .",
    "a very long sentence " * 10,
    " \t ",
    "a child",
    "short",
    "a man sleeps",
]
TARGET = [
    "ein Mann fährt Rad .",
    "eine Zeile ohne Quelle",
    "zwei Hunde laufen über das Gras .",
    "kurz",
    "auch ohne Quelle",
    "\u00a0\u3000",
    "ein sehr langer Satz " * 10,
    "ein Mann schläft",
]
KEPT = [1, 3, 8]
NUM_EMPTY = 3
NUM_TOO_LONG = 2
MAX_LENGTH = 40


@pytest.fixture(scope="module")
def vocabularies():
    return Vocabulary.train(SOURCE, 290), Vocabulary.train(TARGET, 300)


@pytest.fixture
def corpus(tmp_path):
    for name, lines in (("en", SOURCE), ("de", TARGET)):
        text = "".join(f"{line}\n" for line in lines)
        (tmp_path / f"text.{name}").write_text(text, "utf-8")
    return ParallelCorpus(str(tmp_path / "text.en"), str(tmp_path / "text.de"))


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "cache" / "train"


class CountingVocabulary:
    """A vocabulary that counts, or fails at, the calls of `encode`."""

    def __init__(self, vocabulary, error=None):
        self.model = vocabulary.model
        self.num_calls = 0
        self._vocabulary = vocabulary
        self._error = error

    def __len__(self):
        return len(self._vocabulary)

    def encode(self, lines):
        self.num_calls += 1
        if self._error is not None:
            raise self._error
        return self._vocabulary.encode(lines)


def prepare(corpus, vocabularies, directory, max_length=MAX_LENGTH):
    """Prepared tokens, and whether anything was encoded for it."""
    counting = [CountingVocabulary(vocabulary) for vocabulary in vocabularies]
    tokens = TokenCorpus.prepare(corpus, *counting, max_length, directory)
    return tokens, counting[0].num_calls > 0


def rows(ids, offsets):
    return [
        ids[start:stop].tolist() for start, stop in zip(offsets, offsets[1:])
    ]


def assert_holds(tokens, line_numbers, vocabularies):
    """The tokens are those of these lines (1 first)."""
    assert tokens.line_numbers.tolist() == line_numbers
    assert len(tokens) == len(line_numbers)
    for lines, vocabulary, ids, offsets in (
        (SOURCE, vocabularies[0], tokens.source_ids, tokens.source_offsets),
        (TARGET, vocabularies[1], tokens.target_ids, tokens.target_offsets),
    ):
        wanted = [lines[number - 1] for number in line_numbers]
        assert rows(ids, offsets) == vocabulary.encode(wanted)


# === What is kept ===


def test_ids_are_those_of_the_vocabularies(corpus, vocabularies, directory):
    tokens, _ = prepare(corpus, vocabularies, directory)
    assert_holds(tokens, KEPT, vocabularies)


def test_lines_left_out_are_counted(corpus, vocabularies, directory):
    tokens, _ = prepare(corpus, vocabularies, directory)
    assert tokens.num_empty == NUM_EMPTY
    assert tokens.num_too_long == NUM_TOO_LONG
    assert len(tokens) + NUM_EMPTY + NUM_TOO_LONG == len(SOURCE)


def test_lengths_count_the_end(corpus, vocabularies, directory):
    tokens, _ = prepare(corpus, vocabularies, directory)
    for lengths, lines, vocabulary in (
        (tokens.source_lengths, SOURCE, vocabularies[0]),
        (tokens.target_lengths, TARGET, vocabularies[1]),
    ):
        kept = vocabulary.encode([lines[number - 1] for number in KEPT])
        assert list(lengths) == [len(row) + 1 for row in kept]


@pytest.mark.parametrize("side", [0, 1], ids=["source", "target"])
def test_limit_counts_the_end(side, vocabularies, tmp_path):
    text = (SOURCE, TARGET)[side][0]
    lines = ["x", "x"]
    lines[side] = text
    paths = [tmp_path / "text.en", tmp_path / "text.de"]
    for path, line in zip(paths, lines):
        path.write_text(f"{line}\nx\n", "utf-8")
    corpus = ParallelCorpus(*map(str, paths))
    length = len(vocabularies[side].encode([text])[0]) + 1
    for limit, kept in ((length, [1, 2]), (length - 1, [2])):
        tokens, _ = prepare(
            corpus, vocabularies, tmp_path / f"cache{limit}", limit
        )
        assert tokens.line_numbers.tolist() == kept
        assert tokens.num_too_long == 2 - len(kept)


def test_line_numbers_are_right_when_lines_are_many(
    vocabularies, directory, tmp_path
):
    # More than are encoded at a time; every third is empty.
    lines = ["" if n % 3 == 0 else f"a man {n}" for n in range(1, 25_001)]
    paths = [tmp_path / "text.en", tmp_path / "text.de"]
    for path in paths:
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    tokens, _ = prepare(
        ParallelCorpus(*map(str, paths)), vocabularies, directory
    )
    kept = [n for n in range(1, 25_001) if n % 3]
    assert tokens.line_numbers.tolist() == kept
    assert tokens.num_empty == 25_000 - len(kept)
    for ids, offsets, vocabulary in (
        (tokens.source_ids, tokens.source_offsets, vocabularies[0]),
        (tokens.target_ids, tokens.target_offsets, vocabularies[1]),
    ):
        decoded = vocabulary.decode(rows(ids, offsets))
        assert decoded == [f"a man {n}" for n in kept]


def test_first_lines_may_all_be_empty(vocabularies, directory, tmp_path):
    # A whole batch of lines of which nothing is left to encode.
    paths = [tmp_path / "text.en", tmp_path / "text.de"]
    for path in paths:
        path.write_text("\n" * 10_000 + "a man\n", "utf-8")
    tokens, _ = prepare(
        ParallelCorpus(*map(str, paths)), vocabularies, directory
    )
    assert tokens.line_numbers.tolist() == [10_001]
    assert tokens.num_empty == 10_000


def test_pairs_are_told_from_files_alone_when_read_again(
    corpus, vocabularies, directory
):
    first, _ = prepare(corpus, vocabularies, directory)
    again, _ = prepare(corpus, vocabularies, directory)
    assert_holds(again, KEPT, vocabularies)
    assert (again.num_empty, again.num_too_long) == (NUM_EMPTY, NUM_TOO_LONG)
    for name in ("source_ids", "target_ids", "line_numbers"):
        assert getattr(again, name).dtype == getattr(first, name).dtype


class TinyVocabulary:
    """Words that are numbers; of any size."""

    model = b"tiny"

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def encode(self, lines):
        return [[int(word) for word in line.split()] for line in lines]


@pytest.mark.parametrize("size", [300, 65_535, 65_536, 65_537, 250_000])
def test_ids_survive_when_the_vocabulary_is_large(size, directory, tmp_path):
    source, target = ["3 7", f"{size - 1} 3"], [f"5 {size - 1}", "4"]
    for name, lines in (("en", source), ("de", target)):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    tokens = TokenCorpus.prepare(
        ParallelCorpus(str(tmp_path / "en"), str(tmp_path / "de")),
        TinyVocabulary(size),
        TinyVocabulary(size),
        10,
        directory,
    )
    assert rows(tokens.source_ids, tokens.source_offsets) == [
        [3, 7],
        [size - 1, 3],
    ]
    assert rows(tokens.target_ids, tokens.target_offsets) == [
        [5, size - 1],
        [4],
    ]
    wide = size > 2**16
    assert tokens.source_ids.dtype == (np.int32 if wide else np.uint16)


def test_each_side_has_the_ids_of_its_vocabulary(directory, tmp_path):
    for name in ("en", "de"):
        (tmp_path / name).write_text("3 4\n")
    tokens = TokenCorpus.prepare(
        ParallelCorpus(str(tmp_path / "en"), str(tmp_path / "de")),
        TinyVocabulary(10),
        TinyVocabulary(100_000),
        10,
        directory,
    )
    assert tokens.source_ids.dtype == np.uint16
    assert tokens.target_ids.dtype == np.int32
    assert tokens.source_ids.tolist() == tokens.target_ids.tolist() == [3, 4]


# === When it is made anew ===


def test_nothing_is_encoded_when_nothing_changed(
    corpus, vocabularies, directory
):
    assert prepare(corpus, vocabularies, directory)[1]
    tokens, encoded = prepare(corpus, vocabularies, directory)
    assert not encoded
    assert_holds(tokens, KEPT, vocabularies)


def test_nothing_is_encoded_when_the_path_is_written_otherwise(
    corpus, vocabularies, directory, monkeypatch, tmp_path
):
    prepare(corpus, vocabularies, directory)
    monkeypatch.chdir(tmp_path)
    relative = ParallelCorpus("text.en", "./text.de")
    assert not prepare(relative, vocabularies, directory)[1]


@pytest.mark.parametrize("side", ["source", "target"])
def test_it_is_made_anew_when_a_file_changed(
    side, corpus, vocabularies, directory
):
    prepare(corpus, vocabularies, directory)
    path = getattr(corpus, side)
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    lines[0] = "dogs"
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
    tokens, encoded = prepare(corpus, vocabularies, directory)
    assert encoded
    index = ("source", "target").index(side)
    ids, offsets = (
        (tokens.source_ids, tokens.source_offsets),
        (tokens.target_ids, tokens.target_offsets),
    )[index]
    assert vocabularies[index].decode(rows(ids, offsets))[0] == "dogs"


def test_it_is_made_anew_when_a_file_of_the_same_size_is_newer(
    corpus, vocabularies, directory
):
    prepare(corpus, vocabularies, directory)
    stat = os.stat(corpus.source)
    os.utime(corpus.source, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1_000))
    assert prepare(corpus, vocabularies, directory)[1]
    assert not prepare(corpus, vocabularies, directory)[1]


def test_it_is_made_anew_when_a_file_of_the_same_time_is_longer(
    corpus, vocabularies, directory
):
    # Copies often keep the time.
    prepare(corpus, vocabularies, directory)
    stat = os.stat(corpus.source)
    with open(corpus.source, encoding="utf-8") as file:
        text = file.read()
    with open(corpus.source, "w", encoding="utf-8") as file:
        file.write(f"now {text}")
    os.utime(corpus.source, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert prepare(corpus, vocabularies, directory)[1]


def test_it_is_made_anew_when_the_files_are_others(
    corpus, vocabularies, directory
):
    prepare(corpus, vocabularies, directory)
    exchanged = ParallelCorpus(corpus.target, corpus.source)
    assert prepare(exchanged, vocabularies, directory)[1]


@pytest.mark.parametrize("side", [0, 1], ids=["source", "target"])
def test_it_is_made_anew_when_a_vocabulary_changed(
    side, corpus, vocabularies, directory
):
    prepare(corpus, vocabularies, directory)
    others = list(vocabularies)
    others[side] = Vocabulary.train(SOURCE + TARGET, 330)
    tokens, encoded = prepare(corpus, others, directory)
    assert encoded
    assert_holds(tokens, KEPT, others)


def test_it_is_made_anew_when_the_limit_changed(
    corpus, vocabularies, directory
):
    prepare(corpus, vocabularies, directory)
    tokens, encoded = prepare(corpus, vocabularies, directory, 1_000)
    assert encoded
    assert_holds(tokens, [1, 3, 4, 7, 8], vocabularies)
    assert tokens.num_too_long == 0


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b'{"files": [', id="cut"),
        pytest.param(b"\xff\xfe", id="not_text"),
    ],
)
def test_it_is_made_anew_when_its_origin_is_unreadable(
    damaged, corpus, vocabularies, directory
):
    prepare(corpus, vocabularies, directory)
    (directory / "origin.json").write_bytes(damaged)
    tokens, encoded = prepare(corpus, vocabularies, directory)
    assert encoded
    assert_holds(tokens, KEPT, vocabularies)


def test_earlier_arrays_can_still_be_read_when_made_anew(
    corpus, vocabularies, directory
):
    # Another process may be training on them.
    tokens, _ = prepare(corpus, vocabularies, directory)
    prepare(corpus, vocabularies, directory, 1_000)
    assert_holds(tokens, KEPT, vocabularies)


def test_it_is_made_anew_when_an_earlier_version_made_it(
    corpus, vocabularies, directory
):
    prepare(corpus, vocabularies, directory)
    origin = json.loads((directory / "origin.json").read_text())
    del origin["format"]
    (directory / "origin.json").write_text(json.dumps(origin))
    tokens, encoded = prepare(corpus, vocabularies, directory)
    assert encoded
    assert_holds(tokens, KEPT, vocabularies)


# === What millions of pairs need ===


def test_order_of_lengths_is_read_and_not_made_again(
    corpus, vocabularies, directory, monkeypatch
):
    prepare(corpus, vocabularies, directory)
    monkeypatch.setattr(token_corpus, "order_by_length", None)
    tokens, _ = prepare(corpus, vocabularies, directory)
    order = tokens.length_order
    longest = np.maximum(tokens.source_lengths, tokens.target_lengths)
    assert order.pairs.tolist() == np.argsort(longest, kind="stable").tolist()
    assert isinstance(order.pairs, np.memmap)
    assert order.starts[-1] == len(tokens) == len(KEPT)
    assert sorted(longest) == order.longest.tolist()


def test_offsets_take_four_bytes_until_they_must_take_eight(
    corpus, vocabularies, directory, monkeypatch
):
    small, _ = prepare(corpus, vocabularies, directory)
    assert small.source_offsets.dtype == small.line_numbers.dtype == np.uint32
    # The same corpus, as if it were large.
    monkeypatch.setattr(encode_corpus, "_LARGE", small.source_offsets[-1])
    large, _ = prepare(corpus, vocabularies, directory.with_name("large"))
    assert large.source_offsets.dtype == np.int64
    np.testing.assert_array_equal(large.source_offsets, small.source_offsets)


@pytest.mark.parametrize("lines", [1, 2, 3])
def test_parts_of_any_size_make_the_same_arrays(
    lines, corpus, vocabularies, directory, monkeypatch
):
    whole, _ = prepare(corpus, vocabularies, directory)
    monkeypatch.setattr(encode_corpus, "_BATCH_LINES", lines)
    monkeypatch.setattr(encode_corpus, "_CHUNK", lines)
    parts, _ = prepare(corpus, vocabularies, directory.with_name("parts"))
    assert_holds(parts, KEPT, vocabularies)
    for name in ("source_offsets", "target_offsets", "line_numbers"):
        np.testing.assert_array_equal(
            getattr(parts, name), getattr(whole, name)
        )


# === When something goes wrong ===

ERRORS = [
    pytest.param(RuntimeError("a bug"), id="exception"),
    pytest.param(KeyboardInterrupt(), id="interrupt"),
    pytest.param(OSError(errno.ENOSPC, "No space left"), id="full_disk"),
]


def interrupt(corpus, vocabularies, directory, error, max_length):
    """Prepare until the target's `encode` raises."""
    failing = CountingVocabulary(vocabularies[1], error)
    with pytest.raises(type(error)):
        TokenCorpus.prepare(
            corpus, vocabularies[0], failing, max_length, directory
        )
    assert failing.num_calls == 1


@pytest.mark.parametrize("error", ERRORS)
def test_no_half_cache_is_left_when_interrupted(
    error, corpus, vocabularies, directory
):
    interrupt(corpus, vocabularies, directory, error, MAX_LENGTH)
    assert os.listdir(directory.parent) == []
    tokens, encoded = prepare(corpus, vocabularies, directory)
    assert encoded
    assert_holds(tokens, KEPT, vocabularies)


@pytest.mark.parametrize("error", ERRORS)
def test_earlier_cache_stays_when_interrupted(
    error, corpus, vocabularies, directory
):
    prepare(corpus, vocabularies, directory)
    interrupt(corpus, vocabularies, directory, error, 1_000)
    assert os.listdir(directory.parent) == [directory.name]
    tokens, encoded = prepare(corpus, vocabularies, directory)
    assert not encoded
    assert_holds(tokens, KEPT, vocabularies)


def test_no_raw_files_are_left(corpus, vocabularies, directory):
    prepare(corpus, vocabularies, directory)
    assert {name.rpartition(".")[2] for name in os.listdir(directory)} == {
        "npy",
        "json",
    }


def test_error_counts_reasons_when_nothing_is_left(
    corpus, vocabularies, directory
):
    with pytest.raises(InputError) as raised:
        prepare(corpus, vocabularies, directory, 2)
    message = str(raised.value)
    assert corpus.source in message
    assert corpus.target in message
    assert f"{NUM_EMPTY} have an empty line" in message
    assert f"{len(SOURCE) - NUM_EMPTY} have a line of 2 tokens" in message
    assert "`data.max_length`" in message
    assert not directory.exists()


def test_error_when_the_files_do_not_match(corpus, vocabularies, directory):
    with open(corpus.target, "a", encoding="utf-8") as file:
        file.write("one more\n")
    with pytest.raises(InputError, match="9"):
        prepare(corpus, vocabularies, directory)
    assert not directory.exists()


@pytest.mark.parametrize("side", ["source", "target"])
def test_error_when_a_file_is_missing(side, corpus, vocabularies, directory):
    prepare(corpus, vocabularies, directory)
    os.unlink(getattr(corpus, side))
    with pytest.raises(InputError, match="No such file"):
        prepare(corpus, vocabularies, directory)
