"""Variants of the lines of a training text."""

import re

import pytest

from relative_attention.corpora.variants import write_variants
from relative_attention.data import ParallelCorpus
from relative_attention.errors import InputError

# Each name stays the same; "Gift" is another word on either side.
SOURCE = [
    "Tom has three dogs.",
    "Mary and Tom met at seven o'clock.",
    "Boston has a Gift for Tom.",
    "On Monday it cost ten dollars.",
    "The Titanic sank in 1912.",
    "He gave me a present.",
]
TARGET = [
    "Tom hat drei Hunde.",
    "Mary und Tom trafen sich um sieben Uhr.",
    "Boston hat ein Geschenk für Tom.",
    "Am Montag kostete es zehn Dollar.",
    "Die Titanic sank im Jahr 1912.",
    "Er gab mir ein Gift.",
]


def corpus_of(folder, source=SOURCE, target=TARGET, times=50):
    for name, lines in (("my.en", source), ("my.de", target)):
        (folder / name).write_text(
            "".join(f"{line}\n" for line in lines * times)
        )
    return ParallelCorpus(str(folder / "my.en"), str(folder / "my.de"))


def variants_in(folder):
    """The variants in a folder, with the lines that they follow."""
    lines = [*zip(SOURCE, TARGET)]
    found = []
    for pair in ParallelCorpus(str(folder / "my.en"), str(folder / "my.de")):
        if pair in lines:
            line = pair
        else:
            found.append((line, pair))
    return found


@pytest.fixture
def variants(tmp_path):
    write_variants(corpus_of(tmp_path), tmp_path / "new", share=4, seed=3)
    return variants_in(tmp_path / "new")


def things(variants, line):
    """What stands in the place of the word of a line, on both sides."""
    source, target = (
        re.compile(re.escape(side).replace("PLACE", "(.+)") + "$")
        for side in line
    )
    return [
        (place[1], target.match(pair[1])[1])
        for _, pair in variants
        if (place := source.match(pair[0])) and target.match(pair[1])
    ]


@pytest.mark.parametrize(
    "line",
    [
        ("PLACE has three dogs.", "PLACE hat drei Hunde."),
        ("Tom has PLACE dogs.", "Tom hat PLACE Hunde."),
        ("Mary and Tom met at PLACE.", "Mary und Tom trafen sich um PLACE."),
        ("On PLACE it cost ten dollars.", "Am PLACE kostete es zehn Dollar."),
        ("On Monday it cost PLACE.", "Am Montag kostete es PLACE."),
        ("The Titanic sank in PLACE.", "Die Titanic sank im Jahr PLACE."),
    ],
    ids=["name", "number word", "time", "weekday", "amount", "year"],
)
def test_inserted_thing_is_on_both_sides(variants, line):
    lowercase = ("tom", "Tom")
    found = set(things(variants, line)) - {lowercase}
    assert len(found) > 5
    assert all(source == target for source, target in found)


def test_things_to_copy_have_words_that_are_translated(variants):
    """As "Marysson", "three42@mail.net" and "dogs.org/map" have."""
    words = set(re.findall("[a-z]+", " ".join(SOURCE + TARGET).lower()))
    # What both sides of a line have.
    found = [
        thing
        for _, pair in variants
        for thing in set.intersection(*(set(side.split()) for side in pair))
    ]
    starts = tuple(word[:4].capitalize() for word in words if len(word) > 3)
    names = [thing for thing in found if thing.isalpha()]
    assert [n for n in names if n.startswith(starts) and n.lower() not in words]
    users = [re.split("[@._-]", thing)[0] for thing in found if "@" in thing]
    assert words.intersection(users)
    hosts = [re.split("[.-]", thing)[0] for thing in found if "/" in thing]
    assert words.intersection(hosts)


def test_ambiguous_word_is_not_replaced(variants):
    line = ("Boston has a PLACE for Tom.", "Boston hat ein Geschenk für Tom.")
    assert things(variants, line) == []


def test_variants_have_other_forms(variants):
    (source, target) = line = (SOURCE[5], TARGET[5])
    forms = {pair for before, pair in variants if before == line}
    assert (source.lower(), target) in forms
    assert (source[:-1], target[:-1]) in forms
    assert (f'"{source}"', f'"{target}"') in forms
    alone = [pair for pair in forms if pair[0] == pair[1]]
    assert alone


def test_share_decides_the_number_of_variants(tmp_path):
    counts = write_variants(
        corpus_of(tmp_path, times=500), tmp_path / "new", share=0.5
    )
    assert sum(counts.values()) == len(variants_in(tmp_path / "new"))
    assert sum(counts.values()) == pytest.approx(0.5 * 3000, rel=0.1)


def test_seed_decides_the_variants(tmp_path):
    corpus = corpus_of(tmp_path)
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_variants(corpus, tmp_path / name, seed=seed)
    texts = [(tmp_path / n / "my.en").read_text() for n in "abc"]
    assert texts[0] == texts[1] != texts[2]


def test_words_of_another_script_are_in_no_address(tmp_path):
    corpus = corpus_of(tmp_path, ["Tom живёт здесь."], ["Tom 住在这里。"])
    write_variants(corpus, tmp_path / "new", share=4)
    text = (tmp_path / "new" / "my.en").read_text()
    assert re.search("[a-z]@[a-z]", text)
    assert not re.search(r"(^|\s)@|@[.-]|//[.-]", text)


def test_text_without_capitals_has_other_variants(tmp_path):
    corpus = corpus_of(tmp_path, ["你好。"], ["こんにちは。"])
    counts = write_variants(corpus, tmp_path / "new", share=1)
    assert counts["quoted"] and "lowercase" not in counts


def test_unusable_input_is_refused(tmp_path):
    corpus = corpus_of(tmp_path)
    with pytest.raises(InputError, match="new exists. Name a new folder"):
        (tmp_path / "new").mkdir()
        write_variants(corpus, tmp_path / "new")
    with pytest.raises(InputError, match="must have different file names"):
        write_variants(
            ParallelCorpus(corpus.source, corpus.source), tmp_path / "same"
        )
    with pytest.raises(ValueError, match=r"`share` must be a number in \(0, 4"):
        write_variants(corpus, tmp_path / "none", share=0)
