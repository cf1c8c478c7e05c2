"""Numbers, dates and times in words."""

import re
import sys

import pytest

from relative_attention.corpora.spoken_numbers import _SENTENCES
from relative_attention.corpora.spoken_numbers import LANGUAGES
from relative_attention.corpora.spoken_numbers import say
from relative_attention.corpora.spoken_numbers import write_spoken_numbers
from relative_attention.data.lines import read_lines
from relative_attention.errors import InputError

pytest.importorskip("num2words")
pytest.importorskip("babel")

PARTS = ("train", "validation", "test")

# Kind, value, and its words in English, German and French.
SPOKEN = [
    ("count", 80, "eighty | achtzig | quatre-vingts"),
    (
        "count",
        1234,
        "one thousand, two hundred and thirty-four"
        " | eintausendzweihundertvierunddreißig"
        " | mille deux cent trente-quatre",
    ),
    (
        "money",
        ("EUR", 1, 1),
        "one euro and one cent | ein Euro und ein Cent | un euro et un centime",
    ),
    ("ordinal", 200, "two hundredth | zweihundertste | deux centième"),
    (
        "date",
        (1, 8, 1980),
        "the first of August nineteen eighty"
        " | ersten August neunzehnhundertachtzig"
        " | premier août mille neuf cent quatre-vingts",
    ),
    (
        "weekday",
        (2, 7, 2),
        "Wednesday the seventh of February | Mittwoch, dem siebten Februar"
        " | mercredi sept février",
    ),
    (
        "time",
        (19, 25),
        "twenty-five past seven in the evening | fünf vor halb acht abends"
        " | dix-neuf heures vingt-cinq",
    ),
    (
        "time",
        (7, 45),
        "a quarter to eight in the morning | Viertel vor acht morgens"
        " | sept heures quarante-cinq",
    ),
    (
        "time",
        (14, 41),
        "two forty-one in the afternoon | vierzehn Uhr einundvierzig"
        " | quatorze heures quarante et une",
    ),
]


@pytest.fixture(
    scope="module",
    params=[("de", "fr"), pytest.param(("en", "de"), marks=pytest.mark.large)],
    ids="-".join,
)
def corpora(request, tmp_path_factory):
    """Every part of a corpus, as lists of pairs of lines."""
    written = write_spoken_numbers(
        tmp_path_factory.mktemp("spoken"), request.param, 601, 67, 31
    )
    return {part: list(corpus) for part, corpus in written.items()}


def spoken_values(lines):
    """Kind and words of each line's value, found without the generator."""
    patterns = [
        (kind, re.escape(sentence).replace(r"\{\}", "(.+)"))
        for kind, sentences in _SENTENCES.items()
        for translations in sentences
        for sentence in translations
    ]
    values = []
    for line in lines:
        found = [
            (kind, match[1])
            for kind, pattern in patterns
            if (match := re.fullmatch(pattern, line))
        ]
        assert len(found) == 1, line
        values += found
    return values


def test_files_are_aligned(tmp_path):
    write_spoken_numbers(tmp_path, ("fr", "en"), 60, 12, 12)
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{part}.{name}" for part in PARTS for name in ("en", "fr")
    }
    french, english = (
        list(read_lines(tmp_path / f"train.{name}")) for name in ("fr", "en")
    )
    assert len(french) == len(english) == 60
    pairs = dict(zip(french, english))
    starts = {
        "le train part": "the train leaves",
        "elle nous doit": "she owes us",
        "le village": "the village",
    }
    for start, translation in starts.items():
        for line in filter(lambda line: line.startswith(start), french):
            assert pairs[line].startswith(translation)


def test_seed_decides_the_files(tmp_path):
    texts = []
    for name, seed in (("a", 3), ("b", 3), ("c", 5)):
        corpora = write_spoken_numbers(
            tmp_path / name, ("en", "fr"), 60, 12, 12, seed
        )
        texts.append([list(corpora[part]) for part in PARTS])
    assert texts[0] == texts[1]
    assert all(one != other for one, other in zip(texts[0], texts[2]))


def test_parts_have_distinct_pairs(corpora):
    assert [len(corpora[part]) for part in PARTS] == [601, 67, 31]
    for side in (0, 1):
        lines = [pair[side] for part in PARTS for pair in corpora[part]]
        assert len(set(lines)) == len(lines)
        for line in lines:
            assert not re.search(r"[\d{}\n\xa0]|  ", line), line
            assert line.endswith(".")
    kinds = [kind for kind, _ in spoken_values(s for s, _ in corpora["test"])]
    assert {kinds.count(kind) for kind in set(kinds)} == {5, 6}


def test_held_out_values_are_not_in_training(corpora):
    for side in (0, 1):
        train, validation, test = (
            set(spoken_values(pair[side] for pair in corpora[part]))
            for part in PARTS
        )
        assert train and validation and test
        assert not train & test
        assert not train & validation
        assert not validation & test


@pytest.mark.parametrize(
    "kind, value, expected", SPOKEN, ids=[str(case[:2]) for case in SPOKEN]
)
def test_values_are_spoken(kind, value, expected):
    words = [say(kind, value, name) for name in LANGUAGES]
    assert " | ".join(words) == expected


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        *(
            ("languages", value, "two different ones of en, de, fr")
            for value in (("en", "nl"), ("en", "en"), "de")
        ),
        *(
            ("validation_pairs", value, r"an int from 1 to \d+")
            for value in (0, 1.5, 10**6)
        ),
    ],
)
def test_wrong_argument_is_refused(name, value, allowed, tmp_path):
    received = re.escape(f"Received: {name}={value!r}.")
    message = rf"`{name}` must be {allowed}\. {received}$"
    with pytest.raises(ValueError, match=message):
        write_spoken_numbers(tmp_path, **{name: value})
    assert not list(tmp_path.iterdir())


def test_missing_package_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "num2words", None)
    with pytest.raises(InputError, match="num2words.*`pip install '..demo"):
        write_spoken_numbers(tmp_path)
    assert not list(tmp_path.iterdir())
