"""The rules of `translate`: sentences, usual case and placeholders.

The model here copies its source, and the vocabulary writes each word backwards,
but not numbers, so that the model's share is seen. Each sign is a word.
"""

import re
import warnings

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.text.form import SIGNS
from relative_attention.text.form import clean_text

pytestmark = pytest.mark.usefixtures("eagerly")

KNOWN = set("abcdefghijklmnopqrstuvwxyzäöüßéABCDEFGHIJKLMNOPQRSTUVWXYZ")
KNOWN |= set("0123456789.,:;!?'\"-()/$€„“«»")


class Words:
    """A vocabulary of words: the id of a word is its place, from 2."""

    end_id = 1
    sign_ids = range(len(SIGNS))

    def __init__(self, words=()):
        self.words = ["", "", *words]

    def encode(self, lines, keep_signs=False):
        rows = []
        for line in lines:
            words = clean_text(line, keep_signs).split()
            self.words += [word for word in words if word not in self.words]
            rows.append([self.words.index(word) for word in words])
        return rows

    def encode_with_signs(self, lines):
        return self.encode(lines, keep_signs=True)

    def has_piece(self, character):
        return character in KNOWN

    def decode(self, rows):
        words = [[self.words[int(i)] for i in row if i > 1] for row in rows]
        return [backwards(" ".join(some)) for some in words]


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
        logits = 9.0 * tf.one_hot(tf.maximum(cache[:, at], 1), 400)
        return tf.repeat(logits[:, None], token_ids.shape[1], axis=1), cache


def make_translator(*words, **settings):
    settings = {"source_language": "en", "num_beams": 2, **settings}
    return ra.Translator(Copies(), Words(words), **settings)


def with_rules(*words, **settings):
    settings = {"usual_case": True, "placeholders": True, **settings}
    return make_translator(*words, target_language="de", **settings)


def searched(translator):
    """The texts that translations were searched for."""
    words = translator.vocabulary.words
    return [
        " ".join(words[i] for i in row if i > 1)
        for row in translator.model.searched
    ]


def shown(texts):
    """The texts, with a digit in brackets for each sign."""
    return [
        "".join(f"[{ord(c)}]" if c in SIGNS else c for c in text)
        for text in texts
    ]


def backwards(text):
    backwards = (word[::-1] for word in text.split())
    return re.sub(r"\d+", lambda number: number[0][::-1], " ".join(backwards))


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


def test_lines_of_lists_headings_and_tables_stay_lines():
    lines = ["# Go on", "I see", "it. So", "- Milk", "2. Bread", "| a |", "b"]
    (found,) = with_rules().translate(["\n".join(lines)])
    assert found.split("\n") == [
        "# oG no",
        # The sentence goes on in the next line.
        "I ees .ti oS",
        "- kliM",
        "2. daerB",
        "| a |",
        "b",
    ]
    # Also where no sign is put.
    (found,) = make_translator().translate(["Go\non\n# I\nsee"])
    assert found == "oG no\n# I\nees"


def test_halves_of_characters_and_blanks_of_the_model_are_left_out():
    translator = with_rules()
    translator.vocabulary.decode = lambda rows: [" a\ufffd  b "] * len(rows)
    assert translator.translate(["Go on"]) == ["a b"]
    # Without rules it is what the search found.
    translator.placeholders = translator.usual_case = False
    translator.source_language = None
    assert translator.translate(["Go on"]) == [" a\ufffd  b "]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("<p>\u732b\u3002</p>", "<p>cat.</p>"),
        ("**\u732b\u3002**", "**cat.**"),
        ("\u732b\u3002</p><p>\u72ac", "cat.</p><p>cat."),
        ("\u732b\U0001f642", "cat. \U0001f642"),
        ("\U0001f642\u732b(^_^)", "\U0001f642 cat. (^_^)"),
        (
            "1. \u732b\n\uff08\uff12\uff09\u72ac",
            "1. cat.\n\uff08\uff12\uff09 cat.",
        ),
    ],
)
def test_blanks_beside_marks_are_those_of_the_target(text, found):
    translator = with_rules(source_language="ja")
    translator.vocabulary.has_piece = lambda letter: True
    translator.vocabulary.decode = lambda rows: ["cat."] * len(rows)
    assert translator.translate([text]) == [found]


def test_languages_without_blanks_stay_without():
    translator = make_translator(source_language="zh")
    assert translator.translate(["你好。我去！"]) == ["。好你！去我"]


def test_a_blank_follows_sentences_of_a_language_with_blanks():
    translator = make_translator(source_language="ja")
    # The model's share ends with a letter.
    assert translator.translate(["B猫。D犬。"]) == ["。猫B 。犬D"]


def test_lines_have_the_scores_of_their_sentences():
    translator = make_translator(max_source_length=3)
    text = "Go on. I see the cat."
    ((split,),) = translator.translate_lines([text])
    assert [one.text for one in split.sentences] == ["oG .no", "I ees"]
    assert split.text == " ".join(one.text for one in split.sentences)
    assert split.score == pytest.approx(
        sum(one.score for one in split.sentences)
    )
    # The second sentence alone.
    assert split.was_cut
    assert [one.was_cut for one in split.sentences] == [False, True]
    assert split.source_token_ids == split.token_ids == ()


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


# === Without rules ===

ODD = [
    "",
    "?",
    " \u4f60\u597d\uff01 ",
    "GO ON, TOM!",
    "go on",
    '"Go on," he said.',
    "* a@b.org <b>x</b> {name} %s 1,000,000 \U0001f642",
    "Ask me@town.org: 3,000.50\n",
    "\x01 no \x08 sign",
]


@pytest.mark.parametrize(
    ("language", "split_sentences"),
    [
        (None, True),
        ("ja", False),
        *(
            pytest.param(language, splits, marks=pytest.mark.large)
            for language, splits in (("en", True), ("ja", True), ("de", False))
        ),
    ],
)
def test_translate_is_search_where_a_folder_has_no_rules(
    language, split_sentences
):
    translator = make_translator(
        source_language=language, split_sentences=split_sentences
    )
    found = [one.text for one in translator.search(ODD)]
    assert translator.translate(ODD) == found
    n_best = translator.search(ODD, 2)
    assert translator.translate(ODD, 2) == [
        [one.text for one in results] for results in n_best
    ]


def test_exact_text_stays_exact_where_the_language_is_unknown():
    vocabulary = Words()
    vocabulary.encode = lambda lines: [[*map(ord, line)] for line in lines]
    vocabulary.decode = lambda rows: [""] * len(rows)
    translator = ra.Translator(Copies(), vocabulary, num_beams=1)
    translator.translate(["0  1 "])
    assert translator.model.searched == [[48, 32, 32, 49, 32, 1]]


@pytest.mark.parametrize("name", ["search", "sample"])
def test_search_has_no_rules(name):
    translator = with_rules()
    options = {"top_k": 1} if name == "sample" else {}
    found = getattr(translator, name)(ODD, **options)
    plain = getattr(make_translator(), name)(ODD, **options)
    assert [one.text for one in found] == [one.text for one in plain]
    prefixes = [""] * len(ODD)
    assert translator.translate(ODD, target_prefixes=prefixes) == (
        make_translator().translate(ODD, target_prefixes=prefixes)
    )


# === Usual case ===


def test_lines_are_searched_in_usual_case():
    typed, lowered, expected = (
        list(column)
        for column in zip(
            ("THE TRAIN IS LATE.", "The train is late.", "EHT NIART SI .ETAL"),
            ("WHERE AM I?", "Where am I?", "EREHW MA ?I"),
            ("NATO.", "NATO.", ".OTAN"),
            ("EU UN", "EU UN", "UE NU"),
            ("The USA won.", "The USA won.", "ehT ASU .now"),
            ("Happy New Year!", "Happy new year!", "yppaH wen !raey"),
            ("Go Home", "Go Home", "oG emoH"),
            ("Don't Go Home!", "Don't go home!", "t'noD og !emoh"),
            ("Don'T Go Home.", "Don't go home.", "t'noD og .emoh"),
            ("The 1st Home", "The 1st Home", "ehT ts1 emoH"),
            ("NOT up-to-date", "NOT up-to-date", "TON etad-ot-pu"),
            # Two sentences.
            ("DO I SEE? I DO.", "Do I see?", "OD I ?EES I .OD"),
        )
    )
    translator = with_rules()
    assert translator.translate(typed) == expected
    assert sorted(searched(translator)) == sorted([*lowered, "I do."])
    # The n-best list, too; with a beginning of its own as it is.
    n_best = translator.translate(typed, num_results=1)
    assert n_best == [[one] for one in expected]
    translator.translate(typed, target_prefixes=[""] * len(typed))
    assert sorted(searched(translator)[-len(typed) :]) == sorted(typed)


@pytest.fixture
def with_names():
    """A translator whose vocabulary has more pieces for names in lowercase."""
    translator = with_rules()
    encode = translator.vocabulary.encode
    num_pieces = {"zug": 2, "tom": 2, "Da": 2, "da": 3, "Kids": 2}
    num_pieces |= {"KIDS": 3, "ANNA": 3, "anna": 2, "NASA": 2, "nasa": 2}
    num_pieces |= {"Nasa": 2, "US": 2, "mr": 2, "bmw": 2, "Bmw": 2}
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
        ('i saw "tom"!', 'I saw "Tom"!'),
        # Two pieces of two letters, as of a script it has not seen.
        ("da is here.", "da is here."),
        ("Tell Tom To Go!", "Tell Tom to go!"),
        ("Dear Mr. Brown, Go!", "Dear Mr. Brown, go!"),
        ("Dear D.C. Bahn, Go In!", "Dear D.C. Bahn, go in!"),
        # Abbreviations, unless most are words.
        ("BMW US", "BMW US"),
        ("US AND ME!", "Us and me!"),
        ("KIDS GO", "Kids go"),
    ],
)
def test_names_keep_their_capital(with_names, text, found):
    with_names.translate([text])
    assert searched(with_names) == [found]


@pytest.mark.parametrize(
    ("text", "inside", "found"),
    [
        # Two pieces with a capital, one without.
        ("Kids!", "kids!", "!Sdik"),
        ("\u2014 Kids", "kids", "\u2014 Sdik"),
        # One piece either way, as a name, or two words.
        ("Anna!", "Anna!", "!annA"),
        ("Kids play", "Kids play", "sdiK yalp"),
        # In capitals, a word or a name that is one piece otherwise.
        ("KIDS!", "kids!", "!SDIK"),
        ('"ANNA"', "Anna", '"ANNA"'),
        # Abbreviations, which are pieces or are no words, and short ones.
        ("NATO", "NATO", "OTAN"),
        ("NASA!", "NASA!", "!ASAN"),
        ("US!", "US!", "!SU"),
    ],
)
def test_word_alone_is_no_name(with_names, text, inside, found):
    assert with_names.translate([text]) == [found]
    assert searched(with_names) == [inside]


def test_german_title_case_is_usual():
    translator = with_rules(source_language="de")
    encode = translator.vocabulary.encode
    translator.vocabulary.encode = lambda lines: [
        row * (2 if line == "Gut" else 1)
        for line, row in zip(lines, encode(lines))
    ]
    for text in ("Guten Morgen Tom!", "Gut!"):
        translator.translate([text])
    assert searched(translator) == ["Guten Morgen Tom!", "Gut!"]


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
    translator = with_rules()
    assert translator.translate([text]) == [found]
    assert searched(translator) == inside
    assert translator.translate([text], num_results=1) == [[found]]


def test_german_sharp_s_is_no_lowercase():
    translator = with_rules(source_language="de")
    translator.vocabulary.decode = lambda rows: ["große Straße"] * len(rows)
    assert translator.translate(["DIE STRAßE IST GROSS"]) == ["GROSSE STRASSE"]


def test_turkish_capitals_keep_their_dots():
    translator = with_rules(source_language="tr")
    translator.target_language = "tr"
    (found,) = translator.translate(["SIK DİL"])
    assert searched(translator) == ["Sık dil"]
    assert found == "KIS LİD"
    translator.translate(["İKNA OL"])
    assert searched(translator)[-1] == "İkna ol"


# === Placeholders ===


# What is typed, what is searched, and the translation if it is told.
KEPT = [
    # Addresses, names of files, codes.
    ("See www.map.org/me now!", "See [1] now!", "eeS www.map.org/me !won"),
    ("Ask tom@town.org.", "Ask [1].", "ksA .tom@town.org"),
    (
        "Go to docs.town.org, Tom",
        "Go to [1], Tom",
        "oG ot ,docs.town.org moT",
    ),
    ("I don`t see it isn\u00b4t in", "I don't see it isn't in", None),
    ("Open my.map.pdf now", "Open [1] now", "nepO my.map.pdf won"),
    ("It is AB-1234 here", "It is [1] here", "tI si AB-1234 ereh"),
    ("Type `ls a` now", "Type [1] now", "epyT `ls a` won"),
    ("Open src/a/app.py now", "Open [1] now", "nepO src/a/app.py won"),
    (
        "Call +49 (0)30 1234-5678 now",
        "Call [1] now",
        "llaC +49 (0)30 1234-5678 won",
    ),
    ("Call 05 61 00 00 07 now", "Call [1] now", "llaC 05 61 00 00 07 won"),
    (
        "Set my_name or go() now",
        "Set [1] or [2] now",
        "teS my_name ro go() won",
    ),
    ("An aPhone is in", "An [1] is in", "nA aPhone si ni"),
    ("C++ or AT&T do", "[1] or [2] do", "C++ ro AT&T od"),
    ("Use Ctrl+C or F# now", "Use [1] or [2] now", "esU Ctrl+C ro F# won"),
    ("Use alt+del now", "Use [1] now", "esU alt+del won"),
    ("If a + b = 10 I go", "If [1] I go", "fI a + b = 10 I og"),
    ("a 3 - b or 2+2=4 go", "a 3 - b or [1] go", "a 3 - b ro 2+2=4 og"),
    ("So :red_dog: or :+1: is", "So [1] or [2] is", "oS :red_dog: ro :+1: si"),
    ("So: I do: go", "So: I do: go", ":oS I :od og"),
    (
        "Run it -x or --all now",
        "Run it [1] or [2] now",
        "nuR ti -x ro --all won",
    ),
    ("See localhost:80/a or a4:5e:60:d1 now", "See [1] or [2] now", None),
    ("So #\u732b\u304c is it", "So [1] is it", "oS #\u732b\u304c si ti"),
    # Words that look like these.
    ("--Yes, I go. -Yes, I am", "--Yes, I go. -Yes, I am", None),
    (
        "It is 5km to the 21st",
        "It is 5km to the 21st",
        "tI si mk5 ot eht ts21",
    ),
    ("a 20-year-old dog", "a 20-year-old dog", "a dlo-raey-20 god"),
    ("So good.night and I go", "So good.night and I go", None),
    ("In 44 B.C. and so on", "In 44 B.C. and so on", "nI 44 .C.B dna os no"),
    (
        "He said `so' and `no' to me",
        "He said [1] so' and [2] no' to me",
        "eH dias `'os dna `'on ot em",
    ),
    # Tags, entities, fields.
    ("The <b>dog</b> is", "The [1] dog [2] is", "ehT <b>god</b> si"),
    (
        'Go <a title="a > b">on</a> now',
        "Go [1] on [2] now",
        'oG <a title="a > b">no</a> won',
    ),
    ("Salt &amp; bread", "Salt [1] bread", "tlaS &amp; daerb"),
    ("Caf&eacute; isn&#39;t it\\'s", "Caf\u00e9 isn't it's", None),
    ("Go <0>on</0> now<1/>", "Go [1] on [2] now", "oG <0>no</0> won<1/>"),
    ("I do <3 you", "I do [1] 3 you", "I od <3 uoy"),
    (
        "Of %{n} or {d, date, long}",
        "Of [1] or [2]",
        "fO %{n} ro {d, date, long}",
    ),
    (
        "{n, plural, one {# day} other {# men}}",
        "[1] day [2] men [3]",
        "{n, plural, one {# yad} other {# nem}}",
    ),
    ("Go on\\nSo it is", "Go on [1] So it is", "oG no\\noS ti si"),
    ("Dear {name}, go", "Dear [1], go", "raeD ,{name} og"),
    ("Take {{ it }} or %(n)d", "Take [1] or [2]", "ekaT {{ it }} ro %(n)d"),
    ("Take %s or %d.", "Take [1] or [2].", "ekaT %s ro .%d"),
    ("Take %s%d or 5%% now", "Take [1] or 5 [2] now", "ekaT %s%d ro 5%% won"),
    ("Of 20 % or 1.5% so", "Of [1] or [2] so", "fO 20 % ro 1,5% os"),
    ("Of 5%-10% so far", "Of [1] so far", "fO 5%-10% os raf"),
    # Numbers, with the separators of the target.
    ("Of 1,234,567.5 men", "Of [1] men", "fO 1.234.567,5 nem"),
    ("It is -1,234.5 now", "It is [1] now", "tI si -1.234,5 won"),
    ("It is -5 or -300 now", "It is [1] or [2] now", "tI si -5 ro -300 won"),
    ("It is 5-10 now", "It is [1] now", None),
    ("It is (-40%) now", "It is [1] now", "tI si (-40%) won"),
    ("It is $5\u2013$8 now", "It is [1] now", "tI si $5\u2013$8 won"),
    ("It is $4.5bn or $2m now", "It is [1] or [2] now", None),
    ("It is 1'250'000.75 now", "It is [1] now", None),
    ("Of 1,000-2,000.5 men", "Of [1] men", "fO 1.000-2.000,5 nem"),
    ("At 1,500km or 2.5GB go", "At [1] or [2] go", "tA 1.500km ro 2,5GB og"),
    ("Of 60 kg or 1.5 m now", "Of [1] or [2] now", "fO 60 kg ro 1,5 m won"),
    ("Of 60 go or 5 me now", "Of 60 go or 5 me now", None),
    ("At 3.30pm I go", "At 3.30pm I go", "tA mp30.3 I og"),
    ("It is US$1.50 now", "It is [1] now", "tI si US$1,50 won"),
    ("It is $1,000.50 now", "It is [1] now", "tI si $1.000,50 won"),
    ("On 12/05/2024 at 10:30 go", "On [1] at [2] go", None),
    ("I saw 12 cats", "I saw 12 cats", "I was 12 stac"),
    # Marks that are no punctuation of sentences, with a piece or without.
    ("Ann (so I go) is in", "Ann [1] so I go [2] is in", None),
    ("Milk and/or bread", "Milk and [1] or bread", "kliM dna/ro daerb"),
    ("It is 20 \u00b0C now", "It is [1] now", "tI si 20 \u00b0C won"),
    ("At -5\u00b0 or 20\u201325 \u00b0C go", "At [1] or [2] go", None),
    ("Of 60 m\u00b2 or CO\u2082 now", "Of 60 [1] or [2] now", None),
    ("No n\u00b0 12 is in", "No [1] is in", "oN n\u00b0 12 si ni"),
    ("Go 80 km/h now", "Go 80 [1] now", "oG 80 km/h won"),
    ("Ann\u2014so bad\u2014is", "Ann [1] so bad [2] is", None),
    ("a -> b <- a", "a [1] b [2] a", "a -> b <- a"),
    ("if a!=b or a <= -5", "if a [1] b or a [2]", "fi a!=b ro a <= -5"),
    # Punctuation.
    ("So; is - it: good", "So; is - it: good", ";oS si - :ti doog"),
    # Marks without a piece, emoji, other scripts.
    ("Name | City", "Name [1] City", "emaN | ytiC"),
    ("I \U0001f642 you", "I [1] you", "I \U0001f642 uoy"),
    (
        "In \u041c\u0438\u0440 now",
        "In [1] now",
        "nI \u041c\u0438\u0440 won",
    ),
    # With two letters of four that have a piece, in some other word.
    (
        "In \u0438\u0440aa now",
        "In [1] now",
        "nI \u0438\u0440aa won",
    ),
    # A letter without a piece in a word of others.
    ("Ask Dvo\u0159ak now", "Ask Dvo\u0159ak now", "ksA ka\u0159ovD won"),
    # What is around a sentence is cut off.
    ("* Buy milk", "Buy milk", "* yuB klim"),
    ("- Buy milk", "Buy milk", "- yuB klim"),
    ("[x] Buy milk", "Buy milk", "[x] yuB klim"),
    ("a) Buy milk :-)", "Buy milk", "a) yuB klim :-)"),
    ("1. Buy milk :D", "Buy milk", "1. yuB klim :D"),
    ("IV. Buy milk", "Buy milk", "IV. yuB klim"),
    ("\u2014Go on\u2026", "Go on", "\u2014oG no\u2026"),
    (
        "It is (a) or (b) now",
        "It is [1] or [2] now",
        "tI si (a) ro (b) won",
    ),
    ("<p>Go on.</p>", "Go on.", "<p>oG .no</p>"),
    ("# Go \U0001f642", "Go", "# oG \U0001f642"),
    ("(<p>Go (in) now</p>)", "Go [1] in [2] now", "(<p>oG (ni) won</p>)"),
    # Unless it is around a part of the sentence, which a model may move.
    ("<b>My</b> dog is", "[1] My [2] dog is", "<b>yM</b> god si"),
    ("My dog is **in**", "My dog is [1] in [2]", "yM god si **ni**"),
    ("* My *dog* is", "My [1] dog [2] is", "* yM *god* si"),
    ("Go (to my dog)", "Go [1] to my dog [2]", "oG (ot ym god)"),
    # Quotation marks, unless they are around the sentence.
    ("\u201eGo on!\u201c he said", "[1] Go on![2] he said", None),
    (
        "Go to \u00ab my dog \u00bb",
        "Go to [1] my dog [2]",
        "oG ot \u00ab ym god \u00bb",
    ),
    ('Go to "my dog" now', 'Go to "my dog" now', None),
    # Both ends share a sign.
    ("(So (go on))", "[1] So [2] go on [3]", "(oS (og no))"),
    ("</p></b>My dog is [so", "My dog is [1] so", "</p></b>yM god si [os"),
    # Neighbors share a sign.
    ("I <b>\U0001f642</b> you", "I [1] you", "I <b>\U0001f642</b> uoy"),
]


def test_signs_stand_in_place_of_what_stays():
    # In one search, as each takes a second.
    typed, inner, expected = (list(column) for column in zip(*KEPT))
    translator = with_rules()
    found = translator.translate(typed)
    assert sorted(shown(searched(translator))) == sorted(inner)
    assert found == [
        one if told is None else told for one, told in zip(found, expected)
    ]
    n_best = translator.translate(typed, num_results=1)
    assert n_best == [[one] for one in found]


@pytest.mark.parametrize(
    ("language", "text", "found"),
    [
        ("fr", "a 12 345,6 e 0 800 123 456", "a 12.345,6 e 0 800 123 456"),
        ("de", "a 12.345,6 e 192.168.178.100", "a 12.345,6 e 192.168.178.100"),
    ],
)
def test_numbers_that_are_no_amounts_stay_as_they_are(language, text, found):
    assert with_rules(source_language=language).translate([text]) == [found]


def test_ordinals_end_no_sentence_where_a_sign_is_in_their_place():
    translator = with_rules(source_language="de")
    translator.translate(
        ['Bis zum 31.12. Zeit. Es war 1990. Da kam "100. Tag ist gut."']
    )
    assert sorted(shown(searched(translator))) == [
        "Bis zum [1]. Zeit.",
        'Da kam "[1]. Tag ist gut."',
        "Es war [1].",
    ]


def test_only_marks_close_a_sentence():
    """A number right after an end begins the next sentence."""
    translator = with_rules(source_language="ja")
    translator.vocabulary.has_piece = lambda letter: letter != "🙂"
    translator.translate(
        ["はい。2012年に来た。", "行く！🙂明日。", "行く。(明日)来た。"]
    )
    assert sorted(shown(searched(translator))) == sorted(
        [
            "はい。",
            "[1]年に来た。",
            "行く！",
            "明日。",
            "行く。",
            "[1]明日[2]来た。",
        ]
    )


# Without blanks, things stand among letters. Numbers may be wide.
KEPT_IN_JAPANESE = [
    ("彼は２０１２年に来た。", "彼は[1]年に来た。", "2012"),
    ("人口は１，２３４，５６７人です。", "人口は[1]人です。", "1.234.567"),
    ("￥１，０００です。", "[1]です。", "¥1.000"),
    ("３．１４かな。", "[1]かな。", "3,14"),
    ("型番ＷＨ－１０００を買った。", "型番[1]を買った。", "WH-1000"),
    ("https://a.org/bを見て。", "[1]を見て。", "https://a.org/b"),
    ("メールはa@b.orgまで。", "メールは[1]まで。", "a@b.org"),
    ("$HOMEを見て。", "[1]を見て。", "$HOME"),
    ("https://a.org/wiki/東京/bに行く。", "[1]に行く。", "org/wiki/東京/b"),
    ("２５℃か25°Cの水。", "２５ [1]か[2]の水。", "25°C"),
    # A word of another script.
    ("今Москваに来た。", "今[1]に来た。", "Москва"),
    # A wide colon that has no piece.
    ("電話：03-1111です。", "電話:[1]です。", "03-1111"),
    # A wide comma may divide a sentence.
    ("気温は-5度です。", "気温は[1]度です。", "-5"),
    ("5%か10%です。", "[1]か[2]です。", "10%"),
    ("到2000，500家。", "到[1]，[2]家。", "2000"),
    # What makes another number, and what a model knows as words.
    ("2万5000か１，０００万。", "2万5000か１，０００万。", "5000万2"),
    ("1,234.5万か100 万。", "1,234.5万か100 万。", "万5.234,1"),
    ("CD3枚か%dか%d。", "CD3枚か[1]か[2]。", "%d"),
    ("１００万円です。", "１００万円です。", "円万１００"),
    ("午後２時半に来た。", "午後２時半に来た。", "２"),
    ("(月)Tシャツを買う。", "[1]月[2] Tシャツを買う。", "Tシャツ"[::-1]),
    # Few texts have wide letters, so the model reads narrow ones.
    ("ＴＶで「Ｎｅｗｓ」を見た。", "TVで「News」を見た。", "sweN"),
    # In a language with blanks there are none inside tags and brackets.
    ("犬を<b>東京</b>で見た。", "犬を[1]東京[2]で見た。", "<b>京東</b>"),
    # Two words that are capitals, but for letters that have none.
    ("BBCを見る、NHKも。", "BBCを見る、NHKも。", "KHN"),
]


def test_signs_stand_among_letters_where_words_have_no_blanks():
    typed, inner, expected = (list(each) for each in zip(*KEPT_IN_JAPANESE))
    translator = with_rules(source_language="ja")
    translator.vocabulary.has_piece = lambda letter: letter not in "Москва："
    found = translator.translate(typed)
    assert sorted(shown(searched(translator))) == sorted(inner)
    assert all(thing in text for thing, text in zip(expected, found))


def test_tags_brackets_and_fields_without_a_name_keep_their_order():
    translator = with_rules()
    decode = translator.vocabulary.decode
    translator.vocabulary.decode = lambda rows: [
        " ".join(text.split()[::-1]) for text in decode(rows)
    ]
    text = "a <b>c</b> or %s {x} e %d f"
    assert translator.translate([text]) == ["f %s {x} e %d ro <b>c</b> a"]
    assert translator.translate(["go (so we) now"]) == ["won (ew os) og"]
    # What opens and ends in one thing may move.
    assert translator.translate(["go (100) to <b>200</b> or (300) now"]) == (
        ["won (300) ro <b>200</b> ot (100) og"]
    )
    # But not fields in it, and no part of a pair.
    assert translator.translate(["go (%s) to (%d) or <b>now 200</b> on"]) == (
        ["no <b>won 200</b> ro (%s) ot (%d) og"]
    )


@pytest.mark.parametrize(
    "lines",
    [["?"], ["..."], ["\U0001f642\U0001f469\u200d\U0001f467"], ["  12:30\n"]],
)
def test_lines_without_a_letter_are_their_own_translation(lines):
    translator = with_rules()
    assert translator.translate(lines) == [ra.clean_text(lines[0])]
    assert translator.model.searched == []
    # Between sentences as well.
    assert translator.translate(["Go on. 5! I see."]) == ["oG .no 5! I .ees"]
    # A task of its own may be of numbers.
    assert make_translator().translate(["1-2"]) == ["2-1"]


class Drops(Words):
    """Loses a sign in the best results, so many of them."""

    def __init__(self, count, sign="\x02"):
        super().__init__()
        self.count, self.sign = count, sign

    def decode(self, rows):
        return [
            text.replace(self.sign, "") if number % 2 < self.count else text
            for number, text in enumerate(super().decode(rows))
        ]


@pytest.mark.parametrize(
    ("count", "found"),
    [
        (0, "nI www.a.org ro www.b.org won"),
        # The second beam has both.
        (1, "nI www.a.org ro www.b.org"),
        # No beam has: the parts between the signs.
        (2, "nI www.a.org ro www.b.org won"),
    ],
)
def test_what_must_stay_stays_whatever_the_model_does(count, found):
    translator = ra.Translator(
        Copies(), Drops(count), num_beams=2, placeholders=True
    )
    (translation,) = translator.translate(["In www.a.org or www.b.org now"])
    assert translation.startswith(found)
    assert sorted(translation.count(f"www.{x}.org") for x in "ab") == [1, 1]


NUMBERS = "On 31 May 14 of 20 saw www.a.org"


@pytest.mark.parametrize(
    ("count", "searches"),
    [
        (0, ["On 31 May 14 of 20 saw [1]"]),
        (1, ["On 31 May 14 of 20 saw [1]"]),
        (2, ["On 31 May 14 of 20 saw [1]", "On [1] May [2] of [3] saw [4]"]),
    ],
    ids=["best", "second beam", "searched again"],
)
@pytest.mark.parametrize("num_results", [None, 2])
def test_numbers_of_two_digits_stay_whatever_the_model_does(
    count, searches, num_results
):
    translator = ra.Translator(
        Copies(), Drops(count, "14"), num_beams=2, placeholders=True
    )
    found = translator.translate([NUMBERS], num_results)[0]
    best = found[0] if num_results else found
    assert best.startswith("nO 31 yaM 14 fo 20 was www.a.org")
    assert shown(searched(translator)) == searches
    if num_results and count == 1:
        # A result without the number is none.
        assert len(found) == 1


def test_numbers_of_two_digits_may_be_lost_if_signs_are_lost_too():
    translator = ra.Translator(
        Copies(), Drops(2, "14"), num_beams=2, placeholders=True
    )
    decode = translator.vocabulary.decode
    translator.vocabulary.decode = lambda rows: [
        text.replace("\x01", "") for text in decode(rows)
    ]
    assert translator.translate(["go 14 on"]) == ["og no"]


@pytest.mark.parametrize(
    "line",
    # December, in his thirties, 250,000; one digit is often a word.
    ["12月に来た。", "彼は30代だ。", "25万人が来た。", "2匹の犬だ。"],
)
def test_numbers_that_are_parts_of_words_may_be_words(line):
    translator = with_rules(source_language="ja")
    translator.vocabulary.has_piece = lambda letter: True
    translator.vocabulary.decode = lambda rows: ["cat"] * len(rows)
    assert translator.translate([line]) == ["cat"]
    assert searched(translator) == [line]


def test_wide_digits_and_narrow_ones_are_the_same_number():
    translator = with_rules(source_language="ja")
    translator.vocabulary.has_piece = lambda letter: True
    translator.vocabulary.decode = lambda rows: ["at 14"] * len(rows)
    assert translator.translate(["１４人来た。"]) == ["at 14"]
    assert searched(translator) == ["１４人来た。"]
    translator.vocabulary.decode = lambda rows: ["\x01 men"] * len(rows)
    assert translator.translate(["１５人来た。"]) == ["15 men"]


def test_parts_have_blanks_where_the_language_of_the_target_has():
    translator = with_rules(source_language="ja")
    translator.vocabulary.has_piece = lambda letter: True
    translator.vocabulary.decode = lambda rows: ["cat"] * len(rows)
    lines = ["犬は<b>猫</b>と言う、%sを。", "%sは犬(猫)。"]
    assert translator.translate(lines) == [
        "cat <b>cat</b> cat %s cat",
        "%s cat (cat)。",
    ]


def test_more_things_than_signs_are_translated_in_parts():
    text = " ".join(f"in www.a{number}.org" for number in range(12))
    (found,) = with_rules().translate([text])
    assert found == text.replace("in", "ni")


def test_words_without_a_blank_after_a_full_stop_are_no_address():
    translator = with_rules()
    translator.translate(["He came.It was late.", "See DOCS.TOWN.ORG now"])
    assert shown(sorted(searched(translator))) == [
        "He came.",
        "It was late.",
        "See [1] now",
    ]


def test_users_cannot_write_a_sign():
    translator = with_rules()
    (found,) = translator.translate(["In \x01 www.a.org \x02 now"])
    assert found == "nI www.a.org won"
    assert shown(searched(translator)) == ["In [1] now"]


def test_terms_of_the_glossary_and_what_to_keep():
    translator = with_rules(
        keep=[r"Tom\w*"],
        # A capital may be two letters.
        glossary={"big cat": "Löwe", "cat": "Katze", "us": "wir", "ßy": "so"}
        # In another form, and with a blank too many.
        | {"cafe\u0301 ": "bar"},
    )
    lines = [
        "The big cat met Tommy. Cat!",
        "A catfish used us, US",
        "Big cat, big cat",
        "SSy, ßy",
        "A caf\u00e9 here",
        "Dear {cat} at www.cat.org, <b title='cat'>cat</b>",
        "<b>Cat</b> so",
        "\u2018Cat\u2019 so",
        "\u00bfCat or cat, Cat?",
    ]
    assert translator.translate(lines) == [
        "ehT Löwe tem .Tommy Katze!",
        "A hsiftac desu ,wir SU",
        "Löwe, Löwe",
        "So, so",
        "A bar ereh",
        "raeD {cat} ta ,www.cat.org <b title='cat'>Katze</b>",
        "<b>Katze</b> os",
        "\u2018Katze\u2019 os",
        "\u00bfKatze ro ,Katze ?taC",
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"keep": ["("]}, r"`keep\[0\]` must be a regular expression"),
        ({"glossary": {"": "x"}}, "`glossary` must have no empty term"),
        ({"glossary": {" \x01": "x"}}, "no empty term. Received: 'x' for"),
        (
            {"keep": ["a"], "placeholders": False},
            "`keep` and `glossary` need a model that carries signs over",
        ),
    ],
)
def test_invalid_terms_are_refused(settings, message):
    with pytest.raises(ra.InputError, match=message):
        with_rules(**settings)
    # Set later.
    translator = with_rules()
    for name, value in settings.items():
        setattr(translator, name, value)
    with pytest.raises(ra.InputError, match=message):
        translator.translate(["a"])


def test_placeholders_need_vocabularies_with_signs():
    vocabulary = Words()
    vocabulary.sign_ids = ()
    with pytest.raises(ra.InputError, match="needs SentencePiece vocabularies"):
        ra.Translator(Copies(), vocabulary, placeholders=True)
