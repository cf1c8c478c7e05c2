"""Where the text files of a recipe are looked for."""

import dataclasses

import pytest

from relative_attention import InputError
from relative_attention.corpora.find_corpus import DATA_VARIABLE
from relative_attention.corpora.find_corpus import find_corpus
from relative_attention.corpora.find_corpus import find_file
from relative_attention.corpora.find_corpus import named_files


@dataclasses.dataclass(frozen=True)
class Section:
    source: str | None = "a.en"
    target: str | None = "a.de"
    validation_source: str | None = None
    validation_target: str | None = None
    test_source: str | None = None
    test_target: str | None = None
    corpus: str | None = "news"
    origin: str | None = None


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
        found = find_corpus(Section(), folders[1])
        assert found.source.endswith("a.en.gz")
        assert (folder / found.source).samefile(folder / "a.en.gz")
        assert (folder / found.target).samefile(folder / "a.de")
        assert find_file("a.de", Section(), folders[1]) == found.target


def test_known_path_goes_before_all(folders):
    for name in ("a.en", "a.de"):
        (folders[0] / name).touch()
    found = find_corpus(Section(), known={"a.en": "/then/a.en"})
    assert (found.source, found.target) == ("/then/a.en", "a.de")
    assert named_files(Section(), found) == {
        "a.en": "/then/a.en",
        "a.de": "a.de",
    }


def test_error_says_where_it_looked_and_where_to_get_it(folders):
    section = Section(origin="https://example.org/news.")
    with pytest.raises(InputError) as raised:
        find_corpus(section, folders[1])
    message = str(raised.value)
    assert message.startswith("No text file a.en (or a.en.gz); looked in ")
    assert ", ".join(map(str, folders)) in message
    assert "Get it: https://example.org/news." in message
    assert DATA_VARIABLE in message


@pytest.mark.parametrize(
    "changes, part",
    [
        ({"target": None}, ""),
        ({"source": None, "target": None}, ""),
        ({"test_source": "b.en"}, "test_"),
    ],
)
def test_one_of_a_pair_is_refused(changes, part, folders):
    section = dataclasses.replace(Section(), **changes)
    for name in ("a.en", "a.de", "b.en"):
        (folders[0] / name).touch()
    with pytest.raises(InputError, match=f"`data.{part}source` and `data"):
        find_corpus(section)
