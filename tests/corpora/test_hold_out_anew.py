"""Held-out lines of which a file was cut or lost."""

import pytest

from relative_attention import ParallelCorpus
from relative_attention.corpora.hold_out import hold_out


@pytest.fixture
def held_out(tmp_path):
    for side in ("en", "de"):
        text = "".join(f"{side} {number}\n" for number in range(40))
        (tmp_path / side).write_text(text)
    corpus = ParallelCorpus(str(tmp_path / "en"), str(tmp_path / "de"))

    def held_out():
        parts = hold_out(corpus, 4, 1, tmp_path / "held_out")
        return [list(part) for part in parts]

    return held_out


@pytest.mark.parametrize("kept", [None, 0, 9])
@pytest.mark.parametrize("part", ["train", "validation"])
def test_the_same_lines_are_held_out_anew(part, kept, held_out, tmp_path):
    expected = held_out()
    assert list(map(len, expected)) == [36, 4]
    path = tmp_path / "held_out" / f"{part}.source"
    content = path.read_bytes()
    path.unlink()
    if kept is not None:
        path.write_bytes(content[:kept])
    assert held_out() == expected


def test_whole_files_are_left_alone(held_out, tmp_path):
    held_out()
    path = tmp_path / "held_out" / "train.source"
    before = path.stat()
    held_out()
    assert path.stat() == before
