"""Lines held out as a validation text: which, where they stand, and anew."""

import pytest

from relative_attention import InputError
from relative_attention import ParallelCorpus
from relative_attention.corpora.hold_out import hold_out
from relative_attention.corpora.hold_out import line_numbers


@pytest.fixture
def corpus(tmp_path):
    """A function that makes a corpus of so many lines."""

    def corpus(num_lines):
        for side in ("en", "de"):
            text = "".join(f"{side} {n}\n" for n in range(1, num_lines + 1))
            (tmp_path / side).write_text(text)
        return ParallelCorpus(str(tmp_path / "en"), str(tmp_path / "de"))

    return corpus


def pairs(numbers):
    return [(f"en {number}", f"de {number}") for number in numbers]


def test_lines_by_hand(corpus, tmp_path):
    # A run that goes on must hold out what the version that began it did.
    train, validation = hold_out(corpus(40), 3, 7, tmp_path / "held_out")
    assert list(validation) == pairs([8, 27, 35])
    rest = [number for number in range(1, 41) if number not in (8, 27, 35)]
    assert list(train) == pairs(rest)
    numbers = line_numbers((train, validation), 3, 7)
    assert [part.tolist() for part in numbers] == [rest, [8, 27, 35]]


@pytest.mark.parametrize(
    "num_lines, asked, held_out",
    [
        pytest.param(20, 5, 2, id="at_most_a_tenth"),
        pytest.param(5, 3, 1, id="at_least_one"),
        pytest.param(20, 1, 1, id="as_asked"),
    ],
)
def test_number_of_lines(num_lines, asked, held_out, corpus, tmp_path):
    parts = hold_out(corpus(num_lines), asked, 0, tmp_path / "held_out")
    assert [part.check() for part in parts] == [num_lines - held_out, held_out]


def test_another_seed_holds_out_others(corpus, tmp_path):
    first, second = (
        list(hold_out(corpus(20), 2, seed, tmp_path / str(seed))[1])
        for seed in (1, 2)
    )
    assert first == pairs([7, 12])
    assert second == pairs([6, 7])


@pytest.mark.parametrize(
    "part, kept", [("train", None), ("train", 0), ("validation", 9)]
)
def test_the_same_lines_are_held_out_anew(part, kept, corpus, tmp_path):
    folder = tmp_path / "held_out"
    expected = [list(part) for part in hold_out(corpus(40), 4, 1, folder)]
    path = folder / f"{part}.source"
    content = path.read_bytes()
    path.unlink()
    if kept is not None:
        path.write_bytes(content[:kept])
    anew = hold_out(corpus(40), 4, 1, folder)
    assert [list(part) for part in anew] == expected


def test_whole_files_are_left_alone(corpus, tmp_path):
    folder = tmp_path / "held_out"
    hold_out(corpus(40), 4, 1, folder)
    path = folder / "train.source"
    before = (path.stat().st_ino, path.stat().st_mtime_ns)
    hold_out(corpus(40), 4, 1, folder)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == before


def test_corpus_of_unlike_files_is_refused(corpus, tmp_path):
    unlike = corpus(20)
    (tmp_path / "de").write_text("one\n")
    with pytest.raises(InputError, match="20 lines.*with 1"):
        hold_out(unlike, 2, 0, tmp_path / "held_out")
    assert not (tmp_path / "held_out").exists()
