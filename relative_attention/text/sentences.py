"""Splits lines into sentences."""

import functools
import re
from collections.abc import Iterator

from relative_attention.text.form import SIGNS
from relative_attention.text.form import clean_lines

# `sentencex` takes quadratic time where sentences have no blanks between them,
# so it reads this many characters at a time.
_WINDOW = 2_000
# Abbreviations after which `sentencex` ends a sentence although it continues:
# in every language, and by language. No sentence ends with one of them, nor
# with one in lowercase, but for those that are words, too.
_ABBREVIATIONS = {
    "": "Approx Dr Fig Mme Mr Mrs Prof St Vol approx ca cf fig max tel vol",
    "de": (
        "Abb Abs Abt allg Aufl Bd bes Bhf Dipl ehem einschl entspr evtl "
        "Frl geb gegr gest Hl hl Hr Hrn Hbf inkl exkl insb Kap kath Nr od Okt "
        "Pfr röm S sog Str verh vgl z zzgl"
    ),
    "en": (
        "appr avg bn Capt Ch ed eds est Figs Ft Gen incl Lt Maj Ms Rev Sgt Tel"
    ),
    "es": (
        "aprox cap Cía Cnel D Dña Dra Excma Excmo núm pág Profa Sr Sra Sras "
        "Sres Srta Sto Sta Ud Uds"
    ),
    "fr": (
        "av bd boul Cie déc Drs env févr janv juil M Me Mgr Mlle Mlles MM Mmes "
        "n° no nov oct Pr réf sept Ste"
    ),
    "it": "Avv dott Dott Dott.ssa ecc Ing pag Sig sig Sig.ra Sig.na",
    "nl": "afb blz bijv dhr Dhr mevr Mevr Mw nr",
    "pt": "aprox Dra pág Sr Sra Sras Srs",
}
_WORDS_IN_LOWERCASE = {"me", "mm", "ms"}
# Languages that write "19." for "19th".
WITH_ORDINALS = set(
    "bs cs da de et fi fo hr hu is lb lt lv nb nn no pl sk sl sr tr".split()
)
_ROMAN = "[IVX]+"
# Or what stands for a number, see `Placeholders.with_signs`.
_DIGIT = rf"[\d{SIGNS[1]}]"
# No abbreviation, ordinal or number of an item is longer.
_LONGEST_END = 40
# The number of an item in a list, alone before it.
_ITEM = re.compile(r"(?:\d{1,3}|[A-Za-z])[.)]")
# What no sentence begins with, as the second parts of "J.-C." and "2.º", and
# closing marks.
_CONTINUED = re.compile(r"-\w|[\u00aa\u00ba\u300d\u300f]")
# What may close a sentence after its mark, see `Placeholders.with_signs`.
_CLOSING = re.compile(rf"({SIGNS[2]})( ?)")
# An end, and a beginning with which the sentence continues: Spanish "9 a. m. y"
# and "20 d. C.", French "2 c. \u00e0 s. de sel", and a Japanese quote and its
# particle.
_CONTINUED_AFTER = [
    (re.compile(end), re.compile(beginning))
    for end, beginning in (
        (rf"{_DIGIT} [ap]\. ?m\.$", r"[^\W\d_A-Z]"),
        (rf"{_DIGIT} [ad]\.$", r"C\."),
        (r"\bc\.$", r"\u00e0 [cs]\."),
        (r"\u00e0 [cs]\.$", r"[^\W\d_A-Z]"),
        (
            "[\u300d\u300f]$",
            "[\u304c\u3063\u3067\u3068\u306b\u306e\u306f\u3082\u3092]",
        ),
    )
]
# A mark that ends sentences, and more text after it.
_ENDS = re.compile(r"[.!?\u2026]\W?\s+\w|[\u3002\uff01\uff1f]\w")


def split_sentences(text: str, language: str) -> list[tuple[str, str]]:
    """Splits a text into sentences, by `sentencex`.

    Args:
        text: string.
        language: string. The ISO 639 code of its language. `sentencex` splits
            languages that it does not know at common marks.

    Returns:
        List of pairs: a sentence without blanks around it, and what stands
        between it and the next: its line ends, or a blank, or nothing.
        Nothing follows the last one, and a blank text has none.

    Example:
    >>> split_sentences("Dr. Lee has a cat.  It sleeps.", "en")
    [('Dr. Lee has a cat.', ' '), ('It sleeps.', '')]
    """
    pairs: list[tuple[str, str]] = []
    continues = _continues(language)
    for part in _segments(clean_lines(text, keep_signs=True), language):
        sentence = part.strip()
        # A part of blanks alone is all before.
        before = part[: len(part) - len(part.lstrip())]
        if pairs:
            last, blank = pairs.pop()
            blank += before
            # A line end is an end, whatever stands before it.
            closing = None if blank else _CLOSING.match(sentence)
            if closing:
                last, blank = last + closing[1], closing[2]
                sentence = sentence[closing.end() :]
            end = last[-_LONGEST_END:]
            is_same = "\n" not in blank and (
                (closing and sentence[:1].islower())
                or _CONTINUED.match(sentence)
                or continues.search(end)
                or any(
                    one.search(end) and other.match(sentence)
                    for one, other in _CONTINUED_AFTER
                )
            )
            if sentence and is_same:
                sentence = last + blank + sentence
            else:
                pairs.append((last, blank))
        if sentence:
            pairs.append((sentence, part[len(part.rstrip()) :]))
    return pairs


def _segments(text: str, language: str) -> Iterator[str]:
    """Yields the parts that `sentencex` finds, some characters at a time."""
    import sentencex

    start = 0
    while start < len(text):
        *parts, last = sentencex.segment(
            language, text[start : start + _WINDOW]
        )
        # The last one may continue, unless it is all there is.
        if start + _WINDOW >= len(text):
            parts.append(last)
        elif not parts:
            # Too long to be searched whole: cut between words, if it has any.
            parts.append(last[: last.rfind(" ") + 1] or last)
        yield from parts
        start += sum(map(len, parts))


@functools.cache
def _continues(language: str) -> re.Pattern[str]:
    """Returns a pattern of ends after which a sentence continues."""
    words = f"{_ABBREVIATIONS['']} {_ABBREVIATIONS.get(language, '')}".split()
    words += [
        word.lower()
        for word in words
        if len(word) > 1 and word.lower() not in _WORDS_IN_LOWERCASE
    ]
    ends = [rf"(?:^|[^\w.])(?:{'|'.join(map(re.escape, words))})\.$"]
    if language == "fr":
        ends.append(r"\bJ\.(?:-C\.)?$")
    if language in WITH_ORDINALS:
        ends.append(rf"(?:^|\W)(?:{_DIGIT}{{1,4}}|{_ROMAN})\.$")
    return re.compile(rf"^{_ITEM.pattern}$|{'|'.join(ends)}")


def seems_to_have_sentences(text: str) -> bool:
    """Returns whether a text may have several sentences, in any language."""
    return _ENDS.search(text) is not None
