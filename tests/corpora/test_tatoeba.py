"""The split of an archive of everyday sentences, on small archives."""

import zipfile

import pytest

from relative_attention import InputError
from relative_attention.corpora import tatoeba
from relative_attention.corpora.tatoeba import pair_hash
from relative_attention.corpora.tatoeba import split_tatoeba
from relative_attention.data.lines import read_lines

VAL = [("Where is my old hat?", "Où est mon vieux chapeau ?")]
TEST = [("She sings in a choir.", "Elle chante."), ("It rains.", "Il pleut.")]
TRAIN = [("Go.", "Va !"), ("Go on.", "Va !"), ("Hello!", "Salut !")]
LEFT_OUT = [
    # The same sentence of a held-out pair, on either side.
    ("IT RAINS!", "Il tombe de la pluie."),
    ("She's singing.", "elle chante"),
    # No sentence of a held-out pair, but one of a pair that is left out.
    ("The rain falls.", "Il tombe de la pluie."),
]
NAMES = ("val", "test", "train")


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Stores hashes of the pairs above, the test text in its order."""
    folder = tmp_path / "stored"
    folder.mkdir()
    monkeypatch.setattr(tatoeba, "_HASHES", folder)
    for part, pairs in (("val", VAL), ("test", TEST)):
        content = b"".join(map(pair_hash, pairs))
        (folder / f"en-fr.{part}").write_bytes(content)


def write_archive(path, pairs, name="fra.txt"):
    """An archive as the site has them, with a column for the authors."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("_about.txt", "by many")
        lines = [f"{english}\t{other}\tCC-BY\n" for english, other in pairs]
        archive.writestr(name, "".join(lines))
    return path


def texts_of(folder):
    """The pairs of each text."""
    return {
        name: list(
            zip(*(read_lines(folder / f"{name}.{end}") for end in ("en", "fr")))
        )
        for name in NAMES
    }


def test_split_is_the_same_in_any_order(stored, tmp_path):
    pairs = [*TRAIN, *LEFT_OUT, *VAL, *TEST[::-1]]
    lines = []
    for number, chosen in enumerate((pairs, pairs[::-1] + TRAIN)):
        archive = write_archive(tmp_path / "fra-eng.zip", chosen)
        output = tmp_path / str(number)
        folder = split_tatoeba(archive, output, lines.append)
        assert folder == output / "tatoeba" / "en-fr"
        texts = texts_of(folder)
        assert (texts["val"], texts["test"]) == (VAL, TEST)
        assert texts["train"] == sorted(TRAIN, key=pair_hash)
    assert lines[:3] == lines[3:]
    assert lines[0] == "val: 1 pairs" and lines[1] == "test: 2 pairs"
    assert lines[2].startswith("train: 3 pairs; 3 are left out")


def test_spaces_and_accents_are_normalized(stored, tmp_path):
    (english, french), *rest = VAL + TEST
    changed = french.replace("ù", "u\u0300").replace(" ?", "\u202f?")
    pairs = [(f" {english.replace(' ', '  ')}", changed), *rest, (" ", "Rien.")]
    archive = write_archive(tmp_path / "a.zip", pairs)
    folder = split_tatoeba(archive, tmp_path, lambda line: None)
    assert texts_of(folder) == {"val": VAL, "test": TEST, "train": []}


def test_other_archive_reports_missing_pairs(stored, tmp_path):
    archive = write_archive(tmp_path / "a.zip", [*TRAIN, *VAL, *TEST[1:]])
    lines = []
    folder = split_tatoeba(archive, tmp_path, lines.append)
    assert lines[0] == "val: 1 pairs"
    assert lines[1].startswith("test: 1 pairs; the archive lacks 1 of the 2 ")
    assert "2019-04-07" in lines[1]
    assert texts_of(folder)["test"] == TEST[1:]


def test_wrong_archive_is_refused(stored, tmp_path):
    path, output = tmp_path / "a.zip", tmp_path / "texts"

    def check(message):
        with pytest.raises(InputError, match=message):
            split_tatoeba(path, output, lambda line: None)
        assert not output.exists()

    check("No such file")
    path.write_text("no archive")
    check("is no whole zip archive")
    write_archive(path, VAL, "spa.txt")
    check("must have a file deu.txt or fra.txt")
    write_archive(path, TRAIN)
    check("none of the 1 pairs that are to be in val")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("fra.txt", "Hello!\tSalut !\nGo.\n")
    check("fra.txt, line 2: .* Received: 'Go.'")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("fra.txt", b"Hello!\tSalut !\n\xff\tVa !\n")
    check("line 2: not valid UTF-8")


def test_existing_texts_are_kept(stored, tmp_path):
    archive = write_archive(tmp_path / "a.zip", TRAIN + VAL + TEST)
    split_tatoeba(archive, tmp_path, lambda line: None)
    with pytest.raises(InputError, match="en-fr exists"):
        split_tatoeba(archive, tmp_path, lambda line: None)


@pytest.mark.parametrize("name", ["en-de", "en-fr"])
def test_stored_hashes_have_the_documented_number(name):
    val, test = (tatoeba._stored_hashes(name, part) for part in NAMES[:2])
    assert (len(val), len(test)) == (1500, 2000)
    assert len({*val, *test}) == 3500
    assert {len(each) for each in val + test} == {6}


def test_hash_of_a_pair_equals_its_example():
    pair = ("I know.", "Ich weiß.")
    assert f"'{pair_hash(pair).hex()}'" in pair_hash.__doc__
