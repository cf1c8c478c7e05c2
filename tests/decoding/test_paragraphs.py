"""Paragraphs, capitals, addresses and lines without a letter, in any search.

The model here writes each word backwards, so that its share is seen.
"""

import warnings

import numpy as np
import pytest

import relative_attention as ra

pytestmark = pytest.mark.usefixtures("eagerly")


class Words:
    """A vocabulary of words: the id of a word is its place, from 2."""

    end_id = 1

    def __init__(self, words=()):
        self.words = ["", "", *words]

    def encode(self, lines):
        rows = []
        for line in lines:
            words = line.split()
            self.words += [word for word in words if word not in self.words]
            rows.append([self.words.index(word) for word in words])
        return rows

    def decode(self, rows):
        words = [[self.words[int(i)] for i in row if i > 1] for row in rows]
        return [" ".join(word[::-1] for word in some) for some in words]


class Copies:
    """A model that copies its source. `searched` has the sources."""

    def __init__(self):
        self.searched = []

    def start_cache(self, source_token_ids):
        self.searched += np.asarray(source_token_ids).tolist()
        return source_token_ids

    def decode_step(self, token_ids, cache, position, ancestors=None):
        import tensorflow as tf

        at = min(int(position), cache.shape[1] - 1)
        logits = 9.0 * tf.one_hot(tf.maximum(cache[:, at], 1), 60)
        return tf.repeat(logits[:, None], token_ids.shape[1], axis=1), cache


def make_translator(*words, **settings):
    settings = {"source_language": "en", "num_beams": 2, **settings}
    return ra.Translator(Copies(), Words(words), **settings)


def searched(translator):
    """The texts that translations were searched for."""
    words = translator.vocabulary.words
    return [
        " ".join(words[i] for i in row if i > 1)
        for row in translator.model.searched
    ]


def backwards(text):
    return " ".join(word[::-1] for word in text.split())


def test_sentences_are_translated_one_by_one_and_joined():
    translator = make_translator()
    first, second, third = "Dr. Lee has a cat.", "It sleeps!", "Oh, no?"
    text = f" {first}\t {second}  {third}\n"
    expected = " ".join(map(backwards, (first, second, third)))
    assert translator.translate([text, "", second]) == [
        *(expected, "", backwards(second))
    ]
    assert len(translator.model.searched) == 4
    # As a single one.
    assert translator.translate([text], split_sentences=False) == [expected]
    assert len(translator.model.searched) == 5


def test_line_ends_between_sentences_stay():
    text = "Go on. I see.\r\n\r\n\nStay\nhere. Go on."
    (found,) = make_translator().translate([text])
    assert found == f"{backwards('Go on. I see.')}\n\n\n" + backwards(
        "Stay here. Go on."
    )


def test_languages_without_blanks_stay_without():
    translator = make_translator(source_language="zh")
    assert translator.translate(["你好。我去！"]) == ["。好你！去我"]


def test_french_titles_do_not_end_a_sentence():
    translator = make_translator(source_language="fr")
    translator.translate(["J'ai vu M. Dupont hier. Il va bien."])
    assert len(translator.model.searched) == 2


def test_search_splits_only_when_told():
    translator = make_translator(max_source_length=3)
    text = "Go on. I see the cat."
    (whole,) = translator.search([text])
    assert (whole.sentences, whole.was_cut) == ((), True)
    assert len(whole.source_token_ids) == 3
    (split,) = translator.search([text], split_sentences=True)
    assert [one.text for one in split.sentences] == ["oG .no", "I ees"]
    assert split.text == " ".join(one.text for one in split.sentences)
    assert split.score == pytest.approx(
        sum(one.score for one in split.sentences)
    )
    # The second sentence alone.
    assert split.was_cut
    assert [one.was_cut for one in split.sentences] == [False, True]
    assert split.source_token_ids == split.token_ids == ()
    (drawn,) = translator.sample([text], top_k=1, split_sentences=True)
    assert drawn.text == split.text


def test_lines_are_split_only_for_one_translation():
    translator = make_translator()
    text = "Go on. I see."
    for arguments in ({"num_results": 2}, {"target_prefixes": [""]}):
        found = translator.translate([text], **arguments)
        assert found == translator.translate(
            [text], split_sentences=False, **arguments
        )
        with pytest.raises(ValueError, match="`split_sentences` is for the be"):
            translator.translate([text], split_sentences=True, **arguments)
    with pytest.raises(ValueError, match="`split_sentences` is for the best"):
        translator.search([text], split_sentences=True, return_attention=True)


def test_model_can_turn_splitting_off():
    translator = make_translator(split_sentences=False)
    translator.translate(["Go on. I see."])
    assert len(translator.model.searched) == 1
    translator.translate(["Go on. I see."], split_sentences=True)
    assert len(translator.model.searched) == 3


def test_warning_is_given_when_the_language_is_unknown():
    translator = make_translator(source_language=None)
    with pytest.warns(UserWarning, match="the language of the source is unk"):
        translator.translate(["Go on. I see."])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        translator.translate(["Go on."])
        translator.translate(["Go on. I see."], split_sentences=False)
    with pytest.raises(ValueError, match="`split_sentences` needs the languag"):
        translator.translate(["Go on. I see."], split_sentences=True)
    assert len(translator.model.searched) == 3
    with pytest.raises(ValueError, match="`source_language` must be the code"):
        make_translator(source_language="English")


# === Capitals, marks, addresses, and lines without a letter ===


@pytest.mark.parametrize(
    ("text", "lowered", "found"),
    [
        ("THE TRAIN IS LATE.", "The train is late.", "EHT NIART SI .ETAL"),
        ("WHERE AM I?", "Where am I?", "EREHW MA ?I"),
        ("DO I SEE? I DO.", "Do I see? I do.", "OD I ?EES I .OD"),
        ("NATO.", "NATO.", ".OTAN"),
        ("EU UN", "EU UN", "UE NU"),
        ("The USA won.", "The USA won.", "ehT ASU .now"),
    ],
)
def test_lines_in_capitals_are_searched_without(text, lowered, found):
    translator = make_translator()
    assert translator.translate([text]) == [found]
    assert " ".join(searched(translator)) == lowered
    # The n-best list, too; with a beginning of its own as it is.
    assert translator.translate([text], num_results=1) == [[found]]
    translator.translate([text], target_prefixes=[""])
    assert searched(translator)[-1] == text


@pytest.fixture
def with_names():
    """A translator whose vocabulary has more pieces for names in lowercase."""
    translator = make_translator()
    encode = translator.vocabulary.encode
    num_pieces = {"zug": 2, "tom": 2, "Da": 2, "da": 3, "Kids": 2}
    translator.vocabulary.encode = lambda lines: [
        row * num_pieces.get(line, 1) for line, row in zip(lines, encode(lines))
    ]
    return translator


def test_words_that_usually_begin_with_a_capital_keep_it(with_names):
    with_names.translate(["WAR TOM IN DER BAHN? DER ZUG KOMMT."])
    assert searched(with_names) == ["War Tom in der bahn?", "Der Zug kommt."]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("der zug kommt.", "der Zug kommt."),
        ("Der zug kommt.", "Der zug kommt."),
        ("i saw (tom)!", "I saw (Tom)!"),
        ("ask tom@tom.net or zug.de/tom", "ask tom@tom.net or zug.de/tom"),
        # Two pieces of two letters, as of a script it has not seen.
        ("da is here.", "da is here."),
    ],
)
def test_names_in_lines_in_lowercase_get_their_capital(with_names, text, found):
    with_names.translate([text])
    assert searched(with_names) == [found]


def copy_capitals(translator, of_others):
    """Makes it copy what begins with a capital, and give for others a text."""
    decode = translator.vocabulary.decode

    def copy_or_not(rows):
        texts = map(backwards, decode(rows))
        return [x if x.strip("¿«")[0].isupper() else of_others for x in texts]

    translator.vocabulary.decode = copy_or_not


@pytest.mark.parametrize(
    ("text", "again", "found"),
    [
        ("Dog!", ["dog!"], "Hund-haus"),
        ("¿Dog?", ["¿dog?"], "Hund-haus"),
        ("Kids, play!", ["kids, play!"], "Hund-haus"),
        ("KIDS PLAY. TOM.", ["kids play."], "HUND-HAUS TOM."),
        # A name; unknown; written so for a reason; an address.
        ("Tom.", [], "Tom."),
        ("Dog house", [], "Dog house"),
        ("Kids Miller plays.", [], "Kids Miller plays."),
        ("Kids I see.", ["kids I see."], "Hund-haus"),
        ("Da.", [], "Da."),
        ("NATO", [], "NATO"),
        ("A", [], "A"),
        ("Dog.org", [], "Dog.org"),
        ("Kids@dog.org plays.", [], "Kids@dog.org plays."),
    ],
)
def test_copied_first_word_is_searched_again_without_its_capital(
    with_names, text, again, found
):
    copy_capitals(with_names, "hund-haus")
    assert with_names.translate([text, "den?"]) == [found, "hund-haus"]
    lowercase = [
        one for one in searched(with_names) if one.strip("¿")[0].islower()
    ]
    assert lowercase == ["den?", *again]


def test_lists_of_the_best_get_the_capital(with_names):
    copy_capitals(with_names, "hund-haus")
    text = "Kids, play!"
    assert with_names.translate([text], num_results=1) == [["Hund-haus"]]
    # With a beginning of its own, the line as it is.
    assert with_names.translate([text], target_prefixes=[""]) == [text]


def test_copied_first_word_stays_if_it_is_copied_again(with_names):
    copy_capitals(with_names, "kids plays")
    assert with_names.translate(["Kids play."]) == ["Kids play."]


@pytest.mark.parametrize(
    ("text", "inside", "found"),
    [
        ('"Go on."', ["Go on."], '"oG .no"'),
        ("\u201eGo on. I see.\u201c", ["Go on.", "I see."], "„oG .no I .ees“"),
        ("«\u00a0Go  on.\t» I see!", ["Go on.", "I see!"], "« oG .no » I !ees"),
        (
            '"THE TRAIN IS LATE."',
            ["The train is late."],
            '"EHT NIART SI .ETAL"',
        ),
        ('"?"', [], '"?"'),
        ('" "', [], '" "'),
        ('"Go," I said.', ['"Go," I said.'], '",oG" I .dias'),
    ],
)
def test_sentences_in_quotation_marks_are_searched_without(text, inside, found):
    translator = make_translator()
    assert translator.translate([text]) == [found]
    assert searched(translator) == inside


def test_quotation_marks_are_around_each_of_the_best():
    translator = make_translator()
    assert translator.translate(['"Go on."'], num_results=1) == [['"oG .no"']]
    # With a beginning of its own, the line as it is.
    translator.translate(['"Go on."'], target_prefixes=[""])
    assert searched(translator)[-1] == '"Go on."'


@pytest.mark.parametrize(
    ("text", "raw", "found"),
    [
        (
            "Ask library@town.org, www.map.com/me, house.org.",
            "Frag Bibliothek@town.org, www.karte.com/me, haus.org.",
            "Frag library@town.org, www.map.com/me, house.org.",
        ),
        # What is near an address that is there stays.
        (
            "Ask it@mine.com or hr@mine.com on mine.com.",
            "Frag it@mine.com oder er@mein.com auf meine.com.",
            "Frag it@mine.com oder hr@mine.com auf mine.com.",
        ),
        (
            "Ask https://a.org/b?c=d!",
            "Frag https://a.org/b!",
            "Frag https://a.org/b?c=d!",
        ),
        (
            "Ask bibliothèque@ville.fr!",
            "Frag library@ville.fr!",
            "Frag bibliothèque@ville.fr!",
        ),
        (
            "So good.night, Tom!",
            "Also gute.nacht, Tom!",
            "Also gute.nacht, Tom!",
        ),
        ("ASK ME@TOWN.ORG NOW!", "Frag mich@town.org!", "FRAG ME@TOWN.ORG!"),
        (
            "ASK me@town.org OR some@town.org!",
            "Frag mich@town.org oder some@town.org!",
            "FRAG me@town.org ODER some@town.org!",
        ),
        (
            "Look at www.Town.ORG. It is in My.Map.pdf.",
            "www.Stadt.ORG, My.Map.pdf.",
            "www.Town.ORG, My.Map.pdf. www.Stadt.ORG, My.Map.pdf.",
        ),
        # Nothing is like it, or there is no address.
        ("Ask me@town.org!", "Frag die Stadt!", "Frag die Stadt!"),
        ("Ask me.org.", "\u305dme.org\u305d", "\u305dme.org\u305d"),
        ("1.5/km or U.S./EU", "1,5/km oder USA/EU", "1,5/km oder USA/EU"),
    ],
)
def test_addresses_are_in_the_translation_as_they_were(text, raw, found):
    translator = make_translator()
    translator.vocabulary.decode = lambda rows: [raw] * len(rows)
    assert translator.translate([text]) == [found]
    # With a beginning, as the model wrote it.
    assert translator.translate([text], target_prefixes=[""]) == [raw]


def test_german_sharp_s_is_no_lowercase():
    translator = make_translator(source_language="de")
    translator.vocabulary.decode = lambda rows: ["große Straße"] * len(rows)
    assert translator.translate(["DIE STRAßE IST GROSS"]) == ["GROSSE STRASSE"]


def test_lines_without_a_letter_are_their_own_translation():
    lines = [
        "?",
        "...",
        "🙂👩\u200d👧",
        "3,000.50",
        "  12:30\n",
        "→ 5 + 5 = 10",
    ]
    translator = make_translator()
    kept = [ra.clean_text(line) for line in lines]
    assert translator.translate(lines) == kept
    assert translator.search(lines, 2) == [
        [ra.Translation(text, 0.0, was_cut=False)] for text in kept
    ]
    assert translator.model.searched == []
    # Between sentences as well.
    assert translator.translate(["Go on. 🙂! I see."]) == ["oG .no 🙂! I .ees"]
    # A task of its own may be of numbers.
    other = make_translator(source_language=None)
    assert other.translate(["12"]) == ["21"]
