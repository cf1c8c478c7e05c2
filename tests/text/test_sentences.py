"""Lines split into sentences."""

import pytest

from relative_attention.text.form import SIGNS
from relative_attention.text.sentences import split_sentences


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", "Er wurde im 19. Jahrhundert geboren."),
        ("de", "Am 3. Mai fuhr Ludwig XIV. nach Hause."),
        ("de", "Hrn. Maier geht es bzgl. der Miete gut, ebenso Fr. Dr. Kurz."),
        ("en", "It is approx. 5 km to St. Louis, said Dr. Brown."),
        ("en", "1. Preheat the oven"),
        ("en", "b) Preheat the oven"),
        ("en", f"{SIGNS[0]} Come here!{SIGNS[2]} he said."),
        ("es", "La Sra. García y el Sr. López llegaron."),
        ("es", "El Cnel. Díaz nació en el 20 d. C. en el 2.º piso."),
        ("es", "Abre a las 9 a. m. todos los días."),
        # As people type.
        ("es", "la sra. garcía y el sr. lópez llegaron."),
        ("en", "it is near st. louis, said lt. brown."),
        (
            "ja",
            "\u300c\u884c\u3053\u3046\u3002\u300d\u3068\u8a00\u3063\u305f\u3002",
        ),
        ("fr", "J'ai vu M. Dupont et le Dr. Brun avec Mme. Petit."),
        ("fr", "C'était en 52 av. J.-C. à Alésia."),
        ("fr", "Mets 2 c. à c. de sel et 1 c. à s. d'huile."),
        ("en", "It is near Ft. Worth, on avg. per year 3 bn. dollars."),
    ],
)
def test_one_sentence_stays_whole(language, text):
    assert split_sentences(text, language) == [(text, "")]


@pytest.mark.parametrize(
    ("language", "sentences", "blank"),
    [
        ("en", ["Dr. Lee has a cat.", "It sleeps!", "Oh, no?"], " "),
        ("en", ["He was born in 19.", "She was not."], " "),
        ("de", ["Er kam am 3. Mai.", "Sie kam nicht."], " "),
        ("en", [f"{SIGNS[0]} Go on.{SIGNS[2]}", "He went."], " "),
        ("fr", ["J'ai vu M. Dupont hier.", "Il va bien."], " "),
        ("en", ["It took 5 ms.", "That is fast."], " "),
        # A line end is an end, whatever stands before it.
        ("de", ["Im 19.", "Jahrhundert"], "\n"),
        ("en", ["Read this.", "- It is long."], "\n\n"),
        ("zh", ["\u4f60\u597d\u3002", "\u6211\u53bb\uff01"], ""),
        ("ja", ["\u306f\u3044\u3002", "\u884c\u304f\u3002"], ""),
        (
            "ja",
            ["\u300c\u884c\u304f\uff1f\u300d", "\u300c\u306f\u3044\u300d"],
            "",
        ),
        ("es", ["Abre a las 9 a. m.", "Ven pronto."], " "),
    ],
)
def test_sentences_and_what_is_between_them(language, sentences, blank):
    text = blank.join(sentences)
    assert split_sentences(text, language) == [
        *((one, blank) for one in sentences[:-1]),
        (sentences[-1], ""),
    ]


def test_text_is_read_some_characters_at_a_time(monkeypatch):
    sentencex = pytest.importorskip("sentencex")
    lengths = []
    segment = sentencex.segment

    def counted(language, text):
        lengths.append(len(text))
        return segment(language, text)

    monkeypatch.setattr(sentencex, "segment", counted)
    text = "\u3002\u3042" * 5_000
    assert "".join(a + b for a, b in split_sentences(text, "ja")) == text
    # Otherwise its time is quadratic.
    assert max(lengths) <= 2_000
    words = "I see it. " * 500
    assert split_sentences(words, "en") == [
        *[("I see it.", " ")] * 499,
        ("I see it.", ""),
    ]


def test_a_sentence_too_long_to_be_searched_is_cut_between_words():
    text = " ".join(["anhaltend"] * 500)
    parts = split_sentences(text, "de")
    assert len(parts) > 1
    assert "".join(sentence + blank for sentence, blank in parts) == text
    assert {*" ".join(part for part, _ in parts).split()} == {"anhaltend"}
