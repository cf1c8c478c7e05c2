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


def test_one_file_for_both_sides_is_refused(folders):
    (folders[0] / "a.en").touch()
    (folders[0] / "a.de").symlink_to("a.en")
    with pytest.raises(InputError, match="must be two files.*a.en twice"):
        find_corpus(SECTION)


# === Lines held out ===


@pytest.fixture
def corpus(tmp_path):
    """A function that makes a corpus of so many lines, or of these pairs."""

    def corpus(pairs):
        if isinstance(pairs, int):
            pairs = [(f"en {n}", f"de {n}") for n in range(1, pairs + 1)]
        for side, lines in zip(("en", "de"), zip(*pairs)):
            text = "".join(f"{line}\n" for line in lines)
            (tmp_path / side).write_text(text)
        return ParallelCorpus(str(tmp_path / "en"), str(tmp_path / "de"))

    return corpus


def test_parts_have_their_lines_and_line_numbers(corpus, tmp_path):
    whole = corpus(40)
    held_out = hold_out(whole, 3, 7, tmp_path / "held_out")
    pairs = list(whole)
    texts = (held_out.train, held_out.validation)
    for text, numbers in zip(texts, held_out.line_numbers):
        assert list(text) == [pairs[number - 1] for number in numbers]
    train, validation = held_out.line_numbers
    assert (len(train), len(validation), held_out.num_left_out) == (37, 3, 0)
    # Made once, unless the text has changed.
    (tmp_path / "held_out" / "train.source").touch()
    again = hold_out(whole, 3, 7, tmp_path / "held_out")
    assert list(again.train) == list(held_out.train)
    changed = corpus([(f"fr {n}", f"de {n}") for n in range(1, 41)])
    again = hold_out(changed, 3, 7, tmp_path / "held_out")
    assert {*again.train, *again.validation} == {*changed}
    whole = corpus(40)
    other = hold_out(whole, 3, 8, tmp_path / "other")
    assert {*other.line_numbers[1]} != {*validation}


def test_text_in_another_language_is_split_by_the_same_lines(corpus, tmp_path):
    held_out = hold_out(corpus(40), 3, 7, tmp_path / "held_out")
    other = corpus([(f"fr {n}", f"de {n}") for n in range(40)])
    again = hold_out(other, 3, 7, tmp_path / "again", held_out.parts)
    for parts in zip(again.line_numbers, held_out.line_numbers):
        assert parts[0].tolist() == parts[1].tolist()


def test_at_most_a_tenth_and_at_least_one_line_is_held_out(corpus, tmp_path):
    for num_lines, expected in ((20, 2), (5, 1)):
        whole = corpus(num_lines)
        held_out = hold_out(whole, 5, 0, tmp_path / f"of_{num_lines}")
        numbers = [held_out.train.check(), held_out.validation.check()]
        assert numbers == [num_lines - expected, expected]


@pytest.mark.parametrize(
    "name, kept",
    [
        *(("train.source", None), ("validation.source", 9)),
        *(("parts.npy", None), ("parts.npy", 9)),
    ],
)
def test_damaged_files_are_written_again_and_whole_ones_are_not(
    name, kept, corpus, tmp_path
):
    folder = tmp_path / "held_out"

    def texts():
        held_out = hold_out(corpus(40), 4, 1, folder)
        return list(held_out.train), list(held_out.validation)

    expected = texts()
    path = folder / name
    before = (path.stat().st_ino, path.stat().st_mtime_ns)
    texts()
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == before
    content = path.read_bytes()
    path.unlink()
    if kept is not None:
        path.write_bytes(content[:kept])
    assert texts() == expected


def test_text_that_cannot_be_split_is_refused(corpus, tmp_path):
    folder = tmp_path / "held_out"
    for pairs in ([("one", "eins")] * 30, [("one", "eins"), ("One!", "Eins")]):
        with pytest.raises(InputError, match="No line of .*`data.validation_"):
            hold_out(corpus(pairs), 2, 0, folder)
    unequal = corpus(20)
    (tmp_path / "de").write_text("one\n")
    with pytest.raises(InputError, match="20 lines.*with 1"):
        hold_out(unequal, 2, 0, folder)
    assert not folder.exists()
