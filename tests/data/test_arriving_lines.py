"""Lines as they come through a pipe."""

import io
import os

import pytest

from relative_attention.data.arriving_lines import ArrivingLines


@pytest.fixture
def pipe():
    """A pair of a reader of lines and a function that writes."""
    read, write = os.pipe()
    reader, writer = os.fdopen(read, "rb"), os.fdopen(write, "wb", 0)
    yield ArrivingLines(reader), writer
    writer.close()
    reader.close()


def test_line_is_ready_when_it_is_whole(pipe):
    lines, writer = pipe
    assert not lines.is_ready(0)
    writer.write(b"on")
    assert not lines.is_ready(0)
    writer.write(b"e\ntwo\nthr")
    assert lines.is_ready(0)
    assert [next(lines), next(lines)] == [b"one\n", b"two\n"]
    assert not lines.is_ready(0)
    writer.write(b"ee")
    writer.close()
    # The end makes it a line, and is there then.
    assert lines.is_ready(10)
    assert next(lines) == b"three"
    assert lines.is_ready(0)
    assert list(lines) == []


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"one", b"one\n\n", b"\xff\r\n\n", b"x" * 200_000 + b"\ny\n"],
    ids=["nothing", "empty", "one", "two", "bytes", "long"],
)
def test_lines_are_those_of_the_file(content, tmp_path):
    expected = io.BytesIO(content).readlines()
    path = tmp_path / "text"
    path.write_bytes(content)
    with open(path, "rb") as file:
        assert list(ArrivingLines(file)) == expected
    assert list(ArrivingLines(io.BytesIO(content))) == expected


def test_of_a_file_without_descriptor_every_line_is_ready():
    lines = ArrivingLines(io.BytesIO(b"one\n"))
    assert lines.is_ready(0) and next(lines) == b"one\n" and lines.is_ready(0)
