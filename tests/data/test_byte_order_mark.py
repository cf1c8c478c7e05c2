"""The byte order mark that Windows puts before a text is no part of it."""

import codecs
import gzip
import io

import pytest

from relative_attention import InputError
from relative_attention import ParallelCorpus
from relative_attention import TokenCorpus
from relative_attention import TokenVocabulary
from relative_attention import Vocabulary
from relative_attention.data.lines import count_lines
from relative_attention.data.lines import decode_lines
from relative_attention.data.lines import read_lines

MARK = codecs.BOM_UTF8


@pytest.fixture(params=["text", "text.gz"], ids=["plain", "gzip"])
def path(request, tmp_path):
    return tmp_path / request.param


def write(path, content):
    if path.suffix == ".gz":
        content = gzip.compress(content)
    path.write_bytes(content)


@pytest.mark.parametrize(
    "content, lines",
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\nb\n", ["a", "b"]),
        (b"a\r\n\r\n", ["a", ""]),
        # Anywhere else it is a character, U+FEFF, like another.
        (b"a\n" + MARK + b"b\n", ["a", "\ufeffb"]),
        (MARK + b"a\n", ["\ufeffa"]),
    ],
)
def test_first_line_begins_after_the_mark(content, lines, path):
    write(path, MARK + content)
    assert list(read_lines(path)) == lines
    assert count_lines(path) == len(lines)
    stream = io.BytesIO(MARK + content)
    assert list(decode_lines(stream, "standard input")) == lines


def test_mark_before_a_line_longer_than_a_block(path):
    line = "é" * (1 << 20)
    write(path, MARK + f"{line}\nb".encode())
    assert list(read_lines(path)) == [line, "b"]
    assert count_lines(path) == 2


def test_error_counts_the_bytes_of_the_file(path):
    write(path, MARK + b"ab\xffc\n")
    with pytest.raises(InputError, match="line 1: .*byte 6 of the line"):
        list(read_lines(path))


def test_corpus_is_that_without_the_mark(tmp_path):
    lines = {"en": "a man\n\ntwo dogs\n", "de": "ein Mann\n\nzwei Hunde\n"}
    vocabulary = Vocabulary.train(["a man two dogs ein Mann zwei Hunde"], 280)
    corpora = []
    for mark in (b"", MARK):
        folder = tmp_path / f"{len(mark)}"
        folder.mkdir()
        for side, text in lines.items():
            (folder / side).write_bytes(mark + text.encode())
        corpus = ParallelCorpus(str(folder / "en"), str(folder / "de"))
        assert corpus.check() == 3
        corpora.append(
            TokenCorpus.prepare(
                corpus, vocabulary, vocabulary, 50, folder / "cache"
            )
        )
    plain, marked = corpora
    assert marked.line_numbers.tolist() == [1, 3]
    for name in ("source_ids", "source_offsets", "target_ids"):
        assert getattr(marked, name).tolist() == getattr(plain, name).tolist()


def test_vocabulary_of_opennmt_tf_may_have_the_mark(tmp_path):
    path = tmp_path / "vocabulary"
    path.write_bytes(MARK + b"<blank>\n<s>\n</s>\na\n")
    assert TokenVocabulary.from_opennmt_tf(path).tokens[3] == "a"
