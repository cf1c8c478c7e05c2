"""Variants of the lines of a training text."""

import collections
import re

import pytest

from relative_attention.corpora.variants import write_variants
from relative_attention.data import ParallelCorpus
from relative_attention.errors import InputError
from relative_attention.text.form import SIGNS

VERBS = {"sees": "sieht", "feeds": "füttert", "takes": "nimmt"}
NOUNS = {"dogs": "Hunde", "cats": "Katzen", "birds": "Vögel"}
PAIRS = [
    *(
        (f"{name} {verb} {noun} today.", f"Heute {its} {name} {own}.")
        for name in ("Tom", "Mary", "Anna")
        for verb, its in VERBS.items()
        for noun, own in NOUNS.items()
    ),
    # "Gift" is another word on either side.
    *[("Boston has a Gift for me.", "Boston hat ein Geschenk für mich.")] * 9,
    *[("The Titanic sank in 1912.", "Die Titanic sank im Jahr 1912.")] * 9,
    *[("He drank, then died.", "Er trank, dann starb er am Gift.")] * 9,
]


def corpus_of(folder, pairs=PAIRS, times=6):
    for name, lines in zip(("my.en", "my.de"), zip(*pairs * times)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return ParallelCorpus(str(folder / "my.en"), str(folder / "my.de"))


def variants_in(folder, pairs=PAIRS):
    """The variants in a folder, with the lines that they follow."""
    found = []
    for pair in ParallelCorpus(str(folder / "my.en"), str(folder / "my.de")):
        if pair in pairs:
            line = pair
        else:
            found.append((line, pair))
    return found


def every_word_is_rare(patch):
    """A sign stands for no word of grammar, as all are in so few lines."""
    patch.setattr("relative_attention.corpora.variants._MOST_OFTEN", 1)


@pytest.fixture(scope="module")
def variants(tmp_path_factory):
    folder = tmp_path_factory.mktemp("variants")
    with pytest.MonkeyPatch.context() as patch:
        every_word_is_rare(patch)
        write_variants(
            corpus_of(folder, times=120), folder / "new", share=4, seed=3
        )
    return variants_in(folder / "new")


def things(variants, line):
    """What stands in the places of a line, as (source, target) of each pair."""
    source, target = (
        re.compile(re.escape(side).replace("PLACE", "(.+?)") + "$")
        for side in line
    )
    return [
        (place.groups(), found.groups())
        for _, pair in variants
        if (place := source.match(pair[0])) and (found := target.match(pair[1]))
    ]


@pytest.mark.parametrize(
    "line",
    [
        ("Tom sees PLACE today.", "Heute sieht Tom PLACE."),
        ("Mary PLACE dogs today.", "Heute PLACE Mary Hunde."),
        ("PLACE takes birds today.", "Heute nimmt PLACE Vögel."),
    ],
    ids=["noun", "verb", "name"],
)
def test_sign_stands_for_words_that_translate_each_other(variants, line):
    found = set(things(variants, line))
    assert (("\x01",), ("\x01",)) in found
    signs = [pair for pair in found if {*pair[0], *pair[1]} & {*SIGNS}]
    assert all(source == target for source, target in signs)


def test_signs_stand_around_words_that_translate_each_other(variants):
    found = [
        signs
        for verb, its in VERBS.items()
        for noun, own in NOUNS.items()
        for signs in things(
            variants,
            (
                f"Tom {verb} PLACE {noun} PLACE today.",
                f"Heute {its} Tom PLACE {own} PLACE.",
            ),
        )
    ]
    assert found and all(source == target for source, target in found)
    assert all(len(set(source)) == 2 for source, _ in found)


def test_sign_stands_for_a_mark(variants):
    line = ("He drankPLACE then died.", "Er trankPLACE dann starb er am Gift.")
    assert {source for (source,), _ in things(variants, line)} > {" \x01"}


def test_sign_stands_for_no_word_of_grammar(tmp_path):
    write_variants(corpus_of(tmp_path), tmp_path / "new", share=4)
    found = things(
        variants_in(tmp_path / "new"),
        ("Mary PLACE dogs today.", "Heute PLACE Mary Hunde."),
    )
    assert not {source for (source,), _ in found} & {*SIGNS}


def test_line_has_each_sign_on_both_sides(variants):
    num_signs = collections.Counter()
    for _, pair in variants:
        source, target = (sorted(set(side) & set(SIGNS)) for side in pair)
        assert source == target
        assert all(side.count(sign) == 1 for side in pair for sign in source)
        num_signs[len(source)] += 1
    assert max(num_signs) == 3 and min(num_signs.values()) > 10
    # A word keeps its pieces: no letter is beside a sign.
    text = "\n".join(side for _, pair in variants for side in pair)
    assert not re.search(f"[{SIGNS}]\\w|\\w[{SIGNS}]", text)


def test_names_and_numbers_give_their_place_to_others(variants):
    for line in (
        ("PLACE sees dogs today.", "Heute sieht PLACE Hunde."),
        ("The Titanic sank in PLACE.", "Die Titanic sank im Jahr PLACE."),
    ):
        found = {
            source
            for (source,), (target,) in things(variants, line)
            if source == target and source not in SIGNS
        }
        assert len(found) > 5


def test_names_stand_between_signs(variants):
    """As names in tags, which are none of the words of the text."""
    found = things(
        variants, ("PLACE sees dogs today.", "Heute sieht PLACE Hunde.")
    )
    names = {
        re.fullmatch("[\x01-\x08] (.+) [\x01-\x08]", source)
        for (source,), (target,) in found
        if source == target
    }
    assert len({name[1] for name in names if name and name[1] != "Tom"}) > 2


def test_line_is_addressed_to_a_name_or_number(variants):
    line = (
        "He drank, then died, PLACE.",
        "Er trank, dann starb er am Gift, PLACE.",
    )
    found = things(variants, line)
    assert len(found) > 5 and all(source == target for source, target in found)
    # Or a number, to be copied like a name.
    numbers = [source[0] for source, _ in found if source[0].isdecimal()]
    assert 0 < len(numbers) < len(found) / 4


def test_names_have_letters_with_marks(variants):
    line = ("PLACE sees dogs today.", "Heute sieht PLACE Hunde.")
    names = {source for (source,), _ in things(variants, line)} - {*SIGNS}
    assert any(not name.isascii() for name in names)


def test_word_stands_alone(variants):
    alone = {tuple(side.strip("!.") for side in pair) for _, pair in variants}
    assert {("Feeds", "Füttert"), ("feeds", "füttert")} <= alone
    # "Tom" is the same on both sides, and is no translation.
    assert ("Tom", "Tom") not in alone


@pytest.mark.parametrize(
    ("line", "word", "sentence"),
    [
        ("¡Los perros ladran!", "¡Ladran!", "¡Ven!"),
        ("Les chiens aboient !", "Aboient !", "Viens !"),
    ],
    ids=["es", "fr"],
)
def test_final_mark_is_that_of_the_language(
    line, word, sentence, tmp_path, monkeypatch
):
    bark, come = word.strip("¡ !"), sentence.strip("¡ !")
    pairs = [
        *[("Dogs bark!", line)] * 9,
        *[("They bark. Come.", f"Todos {bark.lower()}. {come}.")] * 9,
    ]
    every_word_is_rare(monkeypatch)
    write_variants(corpus_of(tmp_path, pairs, 20), tmp_path / "new", share=4)
    found = {pair for _, pair in variants_in(tmp_path / "new", pairs)}
    typed = ("Bark!", "Bark.", "Come!", "Come.", "They bark!")
    assert {pair for pair in found if pair[0] in typed} == {
        ("Bark!", word),
        ("Bark.", f"{bark}."),
        ("Come!", sentence),
        ("Come.", f"{come}."),
        # The first sentence, with another mark.
        ("They bark!", word.replace(bark, f"Todos {bark.lower()}")),
    }


def test_greetings_are_repeated_with_either_mark(tmp_path):
    pairs = [
        ("Happy New Year!", "Frohes neues Jahr!"),
        ("Good evening.", "Guten Abend!"),
        ("Is it?", "Ja?"),
        ("She has a cat and he sees no dog.", "Sie hat eine Katze."),
        # Without blanks.
        ("おはよう?", "Morning?"),
        ("このりんごはとても美味しそうですか?", "Do they look good?"),
    ]
    corpus = corpus_of(tmp_path, pairs, 50)
    new = tmp_path / "new"
    write_variants(corpus, new, share=4)
    written = ParallelCorpus(str(new / "my.en"), str(new / "my.de"))
    found = collections.Counter(written) - collections.Counter(corpus)
    for source, target in (
        ("Happy New Year", "Frohes neues Jahr"),
        # As it is searched.
        ("Happy new year", "Frohes neues Jahr"),
        ("Good evening", "Guten Abend"),
    ):
        for mark in ".!":
            assert found[source + mark, target + mark] > 5
    # Also as it is, unlike long lines.
    assert found[pairs[2]] > 5 and not found[pairs[3]]
    assert found[pairs[4]] > 5 and not found[pairs[5]]


def test_ambiguous_word_is_no_name(variants):
    line = ("Boston has a PLACE for me.", "Boston hat ein PLACE für mich.")
    assert {source for (source,), _ in things(variants, line)} <= {*SIGNS}


def test_variants_have_other_forms(variants):
    (source, target) = line = PAIRS[-1]
    forms = {pair for before, pair in variants if before == line}
    assert (source.lower(), target) in forms
    assert (source[:-1], target[:-1]) in forms
    assert (f'"{source}"', f'"{target}"') in forms


def test_words_are_found_without_blanks(tmp_path, monkeypatch):
    """Where Tom is トム, and water is 水, in lines without a blank."""
    every_word_is_rare(monkeypatch)
    names = {"Tom": "トム", "Mary": "メアリー", "Ken": "健"}
    drinks = {"water": "水", "tea": "お茶", "milk": "牛乳"}
    pairs = [
        (f"{name} drinks {thing} now.", f"{own}は今{its}を飲みます。")
        for name, own in names.items()
        for thing, its in drinks.items()
    ]
    write_variants(corpus_of(tmp_path, pairs, 200), tmp_path / "new", share=4)
    found = [pair for _, pair in variants_in(tmp_path / "new", pairs)]
    assert ("Tom drinks \x01 now.", "トムは今\x01を飲みます。") in found
    assert ("\x01 drinks tea now.", "\x01は今お茶を飲みます。") in found
    around = (
        "\x01 Tom \x02 drinks tea now.",
        "\x01トム\x02は今お茶を飲みます。",
    )
    assert around in found
    # A name at the end of a line, with the comma of each language.
    ends = [
        (re.search("now, (.+)[.]$", source), re.search("、(.+)。$", target))
        for source, target in found
    ]
    names = [(own[1], its[1]) for own, its in ends if own and its]
    assert len(names) > 5 and all(own == its for own, its in names)


def test_names_and_numbers_are_found_without_case_and_with_wide_digits(
    tmp_path,
):
    wide = str.maketrans("0123456789", "０１２３４５６７８９")
    pairs = [
        (
            f"{its}{mark}犬を{number}匹見た。".translate(wide),
            f"So {name} saw {number} dogs.",
        )
        for number in range(20, 40)
        for name, its in (
            ("Tom", "トム"),
            ("Mary", "メアリー"),
            ("Ken", "ケン"),
        )
        for mark in "がはも"
    ]
    write_variants(corpus_of(tmp_path, pairs, 5), tmp_path / "new", share=4)
    variants = variants_in(tmp_path / "new", pairs)
    for line in (
        ("PLACEが犬を２７匹見た。", "So PLACE saw 27 dogs."),
        ("トムが犬をPLACE匹見た。", "So Tom saw PLACE dogs."),
    ):
        found = {
            source
            for (source,), (target,) in things(variants, line)
            if source == target and source not in SIGNS
        }
        assert len(found) > 5


def test_number_is_found_that_the_other_side_has_as_a_word(tmp_path):
    numbers = {"２": "two", "３": "three", "１０": "ten"}
    pairs = [
        (f"{its}が犬を{digits}匹見た。", f"So {name} saw {word} dogs.")
        for digits, word in numbers.items()
        for name, its in (("Tom", "トム"), ("Mary", "メアリー"))
    ]
    write_variants(corpus_of(tmp_path, pairs, 50), tmp_path / "new", share=4)
    variants = variants_in(tmp_path / "new", pairs)
    line = ("トムが犬をPLACE匹見た。", "So Tom saw PLACE dogs.")
    found = {
        source
        for (source,), (target,) in things(variants, line)
        if source == target and source not in SIGNS
    }
    assert len(found) > 5


def test_share_decides_the_number_of_variants(tmp_path):
    counts = write_variants(
        corpus_of(tmp_path, times=50), tmp_path / "new", share=0.5
    )
    assert sum(counts.values()) == len(variants_in(tmp_path / "new"))
    assert sum(counts.values()) == pytest.approx(0.5 * 2700, rel=0.1)


def test_seed_decides_the_variants(tmp_path):
    corpus = corpus_of(tmp_path)
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_variants(corpus, tmp_path / name, seed=seed)
    texts = [(tmp_path / n / "my.en").read_text() for n in "abc"]
    assert texts[0] == texts[1] != texts[2]


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
