"""Where a recipe's text files are looked for, and lines held out of them."""

import dataclasses

import pytest

from relative_attention import InputError
from relative_attention import ParallelCorpus
from relative_attention.recipes.recipe import DataSection
from relative_attention.runs.texts import DATA_VARIABLE
from relative_attention.runs.texts import find_corpus
from relative_attention.runs.texts import find_file
from relative_attention.runs.texts import hold_out
from relative_attention.runs.texts import line_numbers
from relative_attention.runs.texts import named_files

SECTION = DataSection(source="a.en", target="a.de", corpus="news")


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """The folders in the order in which they are looked in."""
    folders = [
        tmp_path / name
        for name in ("here", "given", "given/news", "set", "set/news")
    ]
    for folder in folders:
        folder.mkdir()
    monkeypatch.chdir(folders[0])
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "set"))
    return folders


def test_first_folder_that_has_a_file_counts(folders):
    # From the last folder to the first, a file is added.
    for folder in reversed(folders):
        for name in ("a.en.gz", "a.de"):
            (folder / name).touch()
        found = find_corpus(SECTION, folders[1])
        assert found.source.endswith("a.en.gz")
        assert (folder / found.source).samefile(folder / "a.en.gz")
        assert (folder / found.target).samefile(folder / "a.de")
        assert find_file("a.de", SECTION, folders[1]) == found.target
    found = find_corpus(SECTION, known={"a.en": "/then/a.en"})
    assert (found.source, found.target) == ("/then/a.en", "a.de")
    paths = {"a.en": "/then/a.en", "a.de": "a.de"}
    assert named_files(SECTION, found) == paths


def test_missing_text_names_folders_and_origin(folders):
    section = dataclasses.replace(SECTION, origin="https://example.org/news.")
    with pytest.raises(InputError) as raised:
        find_corpus(section, folders[1])
    message = str(raised.value)
    assert message.startswith("No text file a.en (or a.en.gz); looked in ")
    assert ", ".join(map(str, folders)) in message
    assert "Get it: https://example.org/news." in message
    assert DATA_VARIABLE in message
    # A folder that is given twice is named once.
    with pytest.raises(InputError) as raised:
        find_corpus(section, folders[0].with_name("set"))
    assert str(raised.value).count(f"{folders[4]}") == 1


def test_text_without_its_pair_is_refused(folders):
    for changes, part in (
        ({"target": None}, ""),
        ({"test_source": "b"}, "test_"),
    ):
        section = dataclasses.replace(SECTION, **changes)
        with pytest.raises(InputError, match=f"`data.{part}source` and `data"):
            find_corpus(section)


# === Lines held out ===


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


def test_held_out_lines_are_those_of_the_seed(corpus, tmp_path):
    # A resumed run must hold out the lines that an earlier version held out.
    train, validation = hold_out(corpus(40), 3, 7, tmp_path / "held_out")
    assert list(validation) == pairs([8, 27, 35])
    rest = [number for number in range(1, 41) if number not in (8, 27, 35)]
    assert list(train) == pairs(rest)
    numbers = line_numbers((train, validation), 3, 7)
    assert [part.tolist() for part in numbers] == [rest, [8, 27, 35]]
    for seed, expected in ((1, [7, 12]), (2, [6, 7])):
        _, other = hold_out(corpus(20), 2, seed, tmp_path / str(seed))
        assert list(other) == pairs(expected)


def test_at_most_a_tenth_and_at_least_one_line_is_held_out(corpus, tmp_path):
    for num_lines, held_out in ((20, 2), (5, 1)):
        parts = hold_out(corpus(num_lines), 5, 0, tmp_path / f"of_{num_lines}")
        numbers = [part.check() for part in parts]
        assert numbers == [num_lines - held_out, held_out]


@pytest.mark.parametrize("part, kept", [("train", None), ("validation", 9)])
def test_damaged_files_are_written_again_and_whole_ones_are_not(
    part, kept, corpus, tmp_path
):
    folder = tmp_path / "held_out"
    expected = [list(part) for part in hold_out(corpus(40), 4, 1, folder)]
    path = folder / f"{part}.source"
    before = (path.stat().st_ino, path.stat().st_mtime_ns)
    hold_out(corpus(40), 4, 1, folder)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == before
    content = path.read_bytes()
    path.unlink()
    if kept is not None:
        path.write_bytes(content[:kept])
    again = hold_out(corpus(40), 4, 1, folder)
    assert [list(part) for part in again] == expected


def test_files_of_different_lengths_are_refused(corpus, tmp_path):
    unequal = corpus(20)
    (tmp_path / "de").write_text("one\n")
    with pytest.raises(InputError, match="20 lines.*with 1"):
        hold_out(unequal, 2, 0, tmp_path / "held_out")
    assert not (tmp_path / "held_out").exists()
