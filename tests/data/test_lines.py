"""Lines of text: files, pairs of files, and streams."""

import codecs
import dataclasses
import gzip
import io
import itertools
import os
import re

import pytest

from relative_attention import InputError
from relative_attention import ParallelCorpus
from relative_attention.data.lines import LineProgress
from relative_attention.data.lines import arriving_lines
from relative_attention.data.lines import count_lines
from relative_attention.data.lines import find_text_file
from relative_attention.data.lines import read_lines


def write(path, content):
    """Bytes into a file, compressed if its name says so."""
    if path.suffix == ".gz":
        content = gzip.compress(content)
    path.write_bytes(content)
    return path


@pytest.fixture(params=["text", "text.gz"], ids=["plain", "gzip"])
def path(request, tmp_path):
    return tmp_path / request.param


# Ends of lines to Unicode and Python, but not to tools that align corpora.
BREAKS = "a\u2028b\u2029\u0085c\x0b\x0c\x1c\x1d\x1e\rd"


@pytest.mark.parametrize(
    "content, lines",
    [
        pytest.param(b"", [], id="empty_file"),
        pytest.param(b"\n", [""], id="one_empty_line"),
        pytest.param(b"a\nb\n", ["a", "b"], id="unix"),
        pytest.param(b"a\r\nb\n\r\n", ["a", "b", ""], id="mixed"),
        pytest.param(b"a\nb", ["a", "b"], id="last_line_without_end"),
        pytest.param("ä漢 🙂 \t\n".encode(), ["ä漢 🙂 \t"], id="not_ascii"),
        pytest.param(f"{BREAKS}\n".encode(), [BREAKS], id="other_ends"),
        pytest.param(codecs.BOM_UTF8, [], id="mark_alone"),
        pytest.param(
            "\ufeff\ufeffa\r\n\ufeff".encode(),
            ["\ufeffa", "\ufeff"],
            id="marks",
        ),
    ],
)
def test_lines_are_those_between_ends(content, lines, path):
    write(path, content)
    assert list(read_lines(path)) == lines
    assert count_lines(path) == len(lines)


def test_error_names_a_path_that_is_no_file(path, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder.gz").mkdir()
    for wrong, message in (
        (path, "No such file"),
        (tmp_path / "folder.gz", "is a folder"),
        (tmp_path / "file" / "text", "cannot be read"),
    ):
        for function in (count_lines, lambda path: list(read_lines(path))):
            with pytest.raises(InputError, match=message) as raised:
                function(wrong)
            assert str(wrong) in str(raised.value)


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (
            b"eins\nzwei\n" + "drei f\xfcr\n".encode("latin-1"),
            "line 3.* byte 7",
        ),
        (codecs.BOM_UTF8 + b"ab\xfcc\n", "line 1.* byte 6"),
    ],
)
def test_error_names_line_and_byte_when_not_utf8(content, place, path):
    write(path, content)
    with pytest.raises(InputError, match="UTF-8.*iconv") as raised:
        count_lines(path)
    message = str(raised.value).replace("(byte", "byte")
    assert re.search(f"{path}, {place} of the line is 0xfc", message)


COMPRESSED = gzip.compress(
    "".join(f"line {number}\n" for number in range(500)).encode()
)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(COMPRESSED[:-4], id="cut"),
        pytest.param(b"plain text\n", id="not_gzip"),
        pytest.param(
            COMPRESSED[:100] + b"\xff" * 50 + COMPRESSED[150:], id="damaged"
        ),
    ],
)
def test_error_when_it_cannot_be_decompressed(content, tmp_path):
    path = tmp_path / "text.gz"
    path.write_bytes(content)
    with pytest.raises(InputError, match="cannot be decompressed") as raised:
        count_lines(path)
    assert str(path) in str(raised.value)


def test_find_prefers_what_is_named(tmp_path):
    assert find_text_file(tmp_path / "text") is None
    compressed = write(tmp_path / "text.gz", b"a\n")
    assert find_text_file(tmp_path / "text") == str(compressed)
    plain = write(tmp_path / "text", b"a\n")
    assert find_text_file(tmp_path / "text") == str(plain)


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


def test_error_names_both_files_when_unequal_or_empty(corpus):
    for source, target in ((1234, 1233), (0, 1), (0, 0)):
        text = corpus(["a"] * source, ["b"] * target)
        message = f"{text.source} with {source:,} line.*{text.target} with "
        if not source + target:
            message = f"{text.source} and {text.target} are empty"
        with pytest.raises(InputError, match=message):
            text.check()


def test_error_when_a_side_is_a_pipe(corpus, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    given = dataclasses.replace(corpus(["one"], ["eins"]), target=str(pipe))
    # Nobody writes to it: opened, it would be waited for.
    with pytest.raises(InputError, match=f"{pipe} is a pipe"):
        given.check()


def test_lines_of_a_pipe_come_as_they_are_written():
    read, write = os.pipe()
    with os.fdopen(read, "rb") as reader, os.fdopen(write, "wb", 0) as writer:
        chunks = arriving_lines(reader, "a pipe")
        writer.write(codecs.BOM_UTF8 + b"one\n")
        assert next(chunks) == ["one"]
        writer.write("two\r\n\nthr\u00fc".encode()[:-1])
        assert next(chunks) == ["two", ""]
        writer.write("\u00fc".encode()[-1:])
        writer.close()
        # The end makes it a line.
        assert next(chunks) == ["thr\u00fc"]
        assert list(chunks) == []


@pytest.mark.parametrize("block_size", [1, 5, 1 << 17])
def test_lines_of_a_stream_are_the_same_in_blocks_of_any_size(block_size):
    content = "one\r\n\ntwo\nf\u00fcr".encode()
    chunks = arriving_lines(io.BytesIO(content), "it", block_size)
    assert [*itertools.chain(*chunks)] == ["one", "", "two", "f\u00fcr"]
    chunks = arriving_lines(io.BytesIO(content + b"\n\xff"), "it", block_size)
    with pytest.raises(InputError, match="it, line 5: not valid UTF-8"):
        list(chunks)


def test_time_left_ignores_lines_of_an_earlier_process():
    """An hour for 18,000 lines, after 2,000 that took no time of its own."""
    seconds = iter([50.0, 50.0 + 3600, 50.0 + 2 * 3600])
    progress = LineProgress(1_000_000, 2_000, lambda: next(seconds))
    assert progress.line(2_000) == "2,000 of 1,000,000 lines"
    assert (
        progress.line(20_000)
        == "20,000 of 1,000,000 lines, 5.0 a second, 2 days, 6:26:40 left"
    )
    assert (
        progress.line(1_000_000)
        == "1,000,000 of 1,000,000 lines, 139 a second, 0:00:00 left"
    )
