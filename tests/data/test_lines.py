"""Lines of files as others count them, and errors that name the place."""

import gzip

import pytest

from relative_attention import InputError
from relative_attention.data import lines as lines_module
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


@pytest.mark.parametrize(
    "content, lines",
    [
        pytest.param(b"", [], id="empty_file"),
        pytest.param(b"\n", [""], id="one_empty_line"),
        pytest.param(b"a\nb\n", ["a", "b"], id="unix"),
        pytest.param(b"a\r\nb\r\n", ["a", "b"], id="windows"),
        pytest.param(b"a\r\nb\n\r\n", ["a", "b", ""], id="mixed"),
        pytest.param(b"a\nb", ["a", "b"], id="last_line_without_end"),
        pytest.param(b"a\n\n\nb\n", ["a", "", "", "b"], id="empty_lines"),
        pytest.param(b" a \t\n", [" a \t"], id="blanks_around"),
        pytest.param("ä漢🙂\n".encode(), ["ä漢🙂"], id="not_ascii"),
    ],
)
def test_lines_are_those_between_ends(content, lines, path):
    write(path, content)
    assert list(read_lines(path)) == lines
    assert count_lines(path) == len(lines)


@pytest.mark.parametrize(
    "character",
    [
        "\u2028",
        "\u2029",
        "\u0085",
        "\x0b",
        "\x0c",
        "\x1c",
        "\x1d",
        "\x1e",
        "\r",
    ],
    ids=lambda character: f"U+{ord(character):04X}",
)
def test_line_goes_on_when_only_unicode_breaks_it(character, path):
    lines = [f"one{character}line", f"{character}another", "third"]
    write(path, "".join(f"{line}\n" for line in lines).encode())
    assert list(read_lines(path)) == lines


def test_name_may_be_a_string(path):
    write(path, b"a\n")
    assert list(read_lines(str(path))) == ["a"]


def test_error_when_missing(path):
    with pytest.raises(InputError, match="No such file") as raised:
        list(read_lines(path))
    assert str(path) in str(raised.value)


def test_error_when_directory(path):
    path.mkdir()
    with pytest.raises(InputError, match="is a folder") as raised:
        list(read_lines(path))
    assert str(path) in str(raised.value)


def test_error_when_in_something_that_is_no_folder(path, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError) as raised:
        list(read_lines(tmp_path / "file" / path.name))
    assert str(tmp_path / "file" / path.name) in str(raised.value)


def test_error_names_line_and_byte_when_not_utf8(path):
    write(path, b"eins\nzwei\n" + "drei für\n".encode("latin-1"))
    with pytest.raises(InputError) as raised:
        list(read_lines(path))
    message = str(raised.value)
    assert f"{path}, line 3" in message
    assert "UTF-8" in message
    assert "byte 7 of the line is 0xfc" in message
    assert "iconv" in message


def test_lines_before_come_out_when_one_is_not_utf8(path):
    write(path, b"eins\n\xff\n")
    lines = read_lines(path)
    assert next(lines) == "eins"
    with pytest.raises(InputError, match="line 2"):
        next(lines)


COMPRESSED = gzip.compress(
    "".join(f"line {number}\n" for number in range(500)).encode()
)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(COMPRESSED[: len(COMPRESSED) // 2], id="cut_in_half"),
        pytest.param(COMPRESSED[:-4], id="cut_at_the_checksum"),
        pytest.param(COMPRESSED[:5], id="cut_in_the_header"),
        pytest.param(b"plain text\n", id="not_gzip"),
        pytest.param(
            COMPRESSED[:100] + b"\xff" * 50 + COMPRESSED[150:], id="damaged"
        ),
        pytest.param(
            COMPRESSED[:-8] + b"\0" * 4 + COMPRESSED[-4:], id="wrong_checksum"
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


# === Counting ===


@pytest.mark.parametrize(
    "content, count",
    [
        (b"", 0),
        (b"\n", 1),
        (b"a", 1),
        (b"a\n", 1),
        (b"a\n\nb", 3),
        ("a\u2028b\u0085c\rd\n".encode(), 1),
        # A character that lies across two blocks, and ends at their ends.
        (b"xxxxxxx" + "é\nb".encode(), 2),
        (b"a\n" * 8, 8),
        (b"abc\n" * 5 + b"a", 6),
    ],
)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_count_is_that_of_the_lines_read(
    content, count, ending, tmp_path, monkeypatch
):
    monkeypatch.setattr(lines_module, "_BLOCK", 8)
    path = tmp_path / f"text{ending}"
    path.write_bytes(gzip.compress(content, 1) if ending else content)
    assert count_lines(path) == count
    assert sum(1 for _ in read_lines(path)) == count


@pytest.mark.parametrize("content", [b"a\n\xff\nb\n", b"a\nb\xc3"])
def test_count_names_the_line_that_is_not_utf8(content, tmp_path):
    path = tmp_path / "text"
    path.write_bytes(content)
    with pytest.raises(InputError, match="line 2: not valid UTF-8"):
        count_lines(path)


def test_count_is_of_the_file_as_it_is_now(tmp_path):
    path = tmp_path / "text"
    for content, count in (("a\n", 1), ("a\nb\n", 2), ("", 0)):
        path.write_text(content)
        assert count_lines(path) == count
