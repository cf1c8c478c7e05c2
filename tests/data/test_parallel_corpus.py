"""Two files, line by line."""

import dataclasses
import gzip
import os

import pytest

from relative_attention import InputError
from relative_attention import ParallelCorpus
from relative_attention.data.parallel_corpus import batched


@pytest.fixture
def corpus(tmp_path):
    def write(source, target):
        paths = tmp_path / "text.en", tmp_path / "text.de.gz"
        paths[0].write_text("".join(f"{line}\n" for line in source), "utf-8")
        paths[1].write_bytes(
            gzip.compress("".join(f"{line}\n" for line in target).encode())
        )
        return ParallelCorpus(*map(str, paths))

    return write


def test_pairs_are_lines_of_the_same_number(corpus):
    pairs = [("one", "eins"), ("", "zwei"), ("three", ""), ("vier", "vier")]
    text = corpus(*zip(*pairs))
    assert list(text) == pairs
    assert list(text) == pairs  # A second time too: training has epochs.
    assert text.check() == 4


@pytest.mark.parametrize(
    "source_lines, target_lines",
    [(1234, 1233), (2, 1005), (0, 1), (1, 0)],
    ids=["target_shorter", "source_shorter", "no_source", "no_target"],
)
def test_error_names_both_numbers_when_they_differ(
    source_lines, target_lines, corpus
):
    text = corpus(["a"] * source_lines, ["b"] * target_lines)
    with pytest.raises(InputError) as raised:
        text.check()
    message = str(raised.value)
    assert f"{text.source} with {source_lines:,} line" in message
    assert f"{text.target} with {target_lines:,}" in message


def test_error_when_both_are_empty(corpus):
    text = corpus([], [])
    with pytest.raises(InputError, match="empty") as raised:
        text.check()
    assert text.source in str(raised.value)
    assert text.target in str(raised.value)


@pytest.mark.parametrize("side", ["source", "target"])
def test_error_when_a_side_is_missing(side, corpus, tmp_path):
    text = corpus(["a"], ["b"])
    missing = str(tmp_path / "missing")
    text = ParallelCorpus(
        **{"source": text.source, "target": text.target, side: missing}
    )
    with pytest.raises(InputError, match="No such file") as raised:
        text.check()
    assert missing in str(raised.value)


def test_error_when_a_side_is_a_pipe(corpus, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    given = dataclasses.replace(corpus(["one"], ["eins"]), target=str(pipe))
    # Nobody writes to it: opened, it would be waited for.
    with pytest.raises(InputError, match=f"{pipe} is a pipe"):
        given.check()


def test_error_when_a_late_line_is_not_utf8(corpus):
    text = corpus(["a"] * 30, ["b"] * 30)
    with open(text.source, "ab") as file:
        file.write(b"\xff\n")
    with pytest.raises(InputError, match="line 31"):
        text.check()


@pytest.mark.parametrize("count", [0, 1, 6, 7, 8, 14])
def test_batched_keeps_everything_in_order(count):
    batches = list(batched(range(count), 7))
    assert [item for batch in batches for item in batch] == list(range(count))
    assert all(len(batch) == 7 for batch in batches[:-1])
    assert all(0 < len(batch) <= 7 for batch in batches)
