"""Text as models read it and return it: forms, sentences, addresses, case."""

import difflib
import functools
import re
import unicodedata
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import TypeAlias

if TYPE_CHECKING:
    import tensorflow as tf

# Returns the ids of each of some texts.
Encode: TypeAlias = Callable[[list[str]], Sequence[Sequence[int]]]

# Invisible characters: control characters that are no white space, the soft
# hyphen, the zero-width space, the word joiner and the byte order mark. Joiners
# (U+200C, U+200D) and marks of direction stay, as scripts and emoji need them.
_INVISIBLE = "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u200b\u2060\ufeff]+"
# What Python's `str.split` takes for white space, line ends included, and
# U+2581, which SentencePiece reads as a blank.
_BLANKS = (
    "[\t-\r\x1c-\x20\x85\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f"
    "\u2581\u3000]+"
)
# Before it, all characters are composed.
_FIRST_MARK = "\u0300"
_find_invisible = re.compile(_INVISIBLE)
_find_blanks = re.compile(_BLANKS)
# Digits and underscores are no letters.
_find_words = re.compile(r"[^\W\d_]+")
# Those of addresses are none of these: they must stay as they are.
_find_free_words = re.compile(
    r"(?<![\w@./:#?&=-])[^\W\d_]+(?![\w@/&=-]|[.:#?]\w)"
)
_QUOTATION_MARKS = '"\u201c\u201d\u201e\u00ab\u00bb\u2039\u203a'
_find_quotation = re.compile(
    f"([{_QUOTATION_MARKS}] ?)"
    f"([^ {_QUOTATION_MARKS}][^{_QUOTATION_MARKS}]*?)"
    f"( ?[{_QUOTATION_MARKS}])"
)
# E-mail addresses; links and files, by a scheme, "www" or what ends in ".com".
# They begin where no such character is before: otherwise a long word would take
# very long.
_IN_ADDRESS = r"[\w@%+~&=.:/?#-]"
_find_addresses = re.compile(
    r"(?<![\w.%+-])(?:[\w.%+-]+@[\w-]+(?:\.[\w-]+)+"
    r"|(?:\w+://|www\.|[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}\b)"
    rf"{_IN_ADDRESS}*(?<=[\w/]))"
)
# "library@ville.fr" is .59 like "bibliothèque@ville.fr", and "gute.nacht" .50
# like "good.night", which is no address.
_LIKENESS = 0.55
_find_address_like = re.compile(
    rf"(?<!{_IN_ADDRESS}){_IN_ADDRESS}*[@./]{_IN_ADDRESS}*[\w/]"
)
# A mark that ends sentences, and more text after it.
_find_ends = re.compile(r"[.!?\u2026]\W?\s+\w|[\u3002\uff01\uff1f]\w")
# Four times the same, or eight times the same character.
_find_loop = re.compile(r"(.{2,40}?)\1{3,}|(.)\2{7,}")
# `sentencex` takes quadratic time where sentences have no blanks between them,
# so it reads this many characters at a time.
_WINDOW = 2_000
# Abbreviations that `sentencex` takes for the end of a sentence.
_TITLES = {"fr": re.compile(r"(?:^|\W)(?:M|MM|Mme|Mlle|Mgr)\.$")}


# === One form ===


def clean_text(text: str) -> str:
    """Returns a text in the form in which models read it.

    Blanks of all kinds, such as tabs, line ends and U+00A0, become one blank
    between two words, and none at the beginning and the end. Characters are
    composed (Unicode's form NFC). Control characters, soft hyphens (U+00AD),
    zero-width spaces (U+200B), word joiners (U+2060) and byte order marks
    (U+FEFF) are left out; joiners (U+200C, U+200D), which scripts and emoji
    need, stay. Of more than 30 combining marks in a row, the first 30 stay.
    U+2581, which SentencePiece reads as a blank, is one.

    `Vocabulary` cleans all it encodes and learns from, so this function is for
    text that is encoded elsewhere, for example by SentencePiece for what
    `export_ctranslate2` wrote.

    Args:
        text: string.

    Returns:
        String. Cleaned again it stays the same.

    Example:
    >>> clean_text(" A\\tman\\u00a0rides.\\r\\n")
    'A man rides.'
    """
    return " ".join(_composed(text).replace("\u2581", " ").split())


def _composed(text: str) -> str:
    """Returns a text without invisible characters, and composed."""
    # Most text is printable, and takes a third of the time.
    if not text.isprintable():
        text = _find_invisible.sub("", text)
    # Last, so that letters and accents with something invisible between them
    # are composed, too.
    if max(text, default="") < _FIRST_MARK:
        return text
    # A mark may become two, so runs are cut again.
    return _bounded(unicodedata.normalize("NFC", _bounded(text)))


@functools.cache
def _long_run() -> str:
    """Returns the pattern of a run of combining marks that is too long.

    NFC takes quadratic time on such a run. Real text has a few marks in a row,
    and Unicode's stream-safe form (UAX 15) allows 30.
    """
    ranges: list[list[int]] = []
    # No mark is in another plane.
    for code in range(ord(_FIRST_MARK), 0x20000):
        if not unicodedata.combining(chr(code)):
            continue
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    marks = "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
    return f"([{marks}]{{30}})[{marks}]+"


def _bounded(text: str) -> str:
    return re.sub(_long_run(), r"\1", text)


def clean_text_in_graph(texts: "tf.Tensor") -> "tf.Tensor":
    """Does the same as `clean_text` in a TensorFlow graph.

    Args:
        texts: string tensor of any shape, in UTF-8; invalid bytes are read as
            U+FFFD.
    """
    import tensorflow as tf
    import tensorflow_text

    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")
    texts = tf.strings.regex_replace(texts, _INVISIBLE, "")
    texts = tf.strings.regex_replace(texts, _long_run(), r"\1")
    texts = tensorflow_text.normalize_utf8(texts, "NFC")
    texts = tf.strings.regex_replace(texts, _long_run(), r"\1")
    return tf.strings.strip(tf.strings.regex_replace(texts, _BLANKS, " "))


# === Sentences ===


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
    text = _find_blanks.sub(
        lambda run: "\n" * run[0].count("\n") or " ", _composed(text)
    ).strip()
    title = _TITLES.get(language)
    inside_addresses = {
        position
        for found in _find_addresses.finditer(text)
        for position in range(found.start() + 1, found.end())
    }
    pairs: list[tuple[str, str]] = []
    start = 0
    for part in _segments(text, language):
        sentence = part.strip()
        # A part of blanks alone is all before.
        before = part[: len(part) - len(part.lstrip())]
        if pairs:
            last, blank = pairs.pop()
            blank += before
            # `sentencex` ends a sentence within "Report.Final.pdf", too.
            is_same = start in inside_addresses or (
                title is not None and title.search(last)
            )
            if sentence and is_same:
                sentence = last + blank + sentence
            else:
                pairs.append((last, blank))
        if sentence:
            pairs.append((sentence, part[len(part.rstrip()) :]))
        start += len(part)
    return pairs


def _segments(text: str, language: str) -> Iterator[str]:
    """Yields the parts that `sentencex` finds, some characters at a time."""
    import sentencex

    start = 0
    while start < len(text):
        window = text[start : start + _WINDOW]
        *parts, last = sentencex.segment(language, window)
        # The last one may go on, unless it is all there is.
        if not parts or start + _WINDOW >= len(text):
            parts.append(last)
        yield from parts
        start += sum(map(len, parts))


def without_quotation_marks(text: str) -> tuple[str, str, str]:
    """Returns what is before, inside and after a text all in quotation marks.

    Any other text is returned with nothing before and after it.

    Args:
        text: string.

    Example:
    >>> without_quotation_marks("« Je viens. »")
    ('« ', 'Je viens.', ' »')
    """
    found = _find_quotation.fullmatch(clean_text(text))
    return (found[1], found[2], found[3]) if found else ("", text, "")


def seems_to_have_sentences(text: str) -> bool:
    """Returns whether a text may have several sentences, in any language."""
    return _find_ends.search(text) is not None


def has_letter(text: str) -> bool:
    """Returns whether a text has a letter, of any script."""
    return _find_words.search(text) is not None


def is_no_answer(source: str, translation: str) -> bool:
    """Returns whether a translation is empty, or repeats itself without an end.

    Its length says nothing: right translations from Chinese have several times
    the characters of their source.
    """
    return not translation or (
        _find_loop.search(translation) is not None
        and _find_loop.search(clean_text(source)) is None
    )


# === Addresses ===


def addresses_in(text: str) -> list[str]:
    """Returns the e-mail addresses, links and names of files of a text.

    Args:
        text: string.

    Example:
    >>> addresses_in("Is it www.example.org, or me@example.org?")
    ['www.example.org', 'me@example.org']
    """
    return _find_addresses.findall(text)


def with_addresses(translation: str, addresses: Sequence[str]) -> str:
    """Returns a translation with the addresses of its text as they were.

    A model may translate a word of an address. What is most like a missing one,
    and like enough (`difflib.get_close_matches`), is taken for it.

    Args:
        translation: string.
        addresses: what `addresses_in` returns for the text.

    Example:
    >>> with_addresses("Wer ist Gast@example.org?", ["guest@example.org"])
    'Wer ist guest@example.org?'
    """
    for address in addresses:
        # Not as the end of another one. In Japanese, letters are before it.
        whole = rf"(?<![\w.@/-]){re.escape(address)}"
        if re.search(whole, translation, re.ASCII):
            continue
        places = {
            found[0]: found.span()
            for found in _find_address_like.finditer(translation)
            if found[0] not in addresses
        }
        for near in difflib.get_close_matches(address, places, 1, _LIKENESS):
            start, end = places[near]
            translation = f"{translation[:start]}{address}{translation[end:]}"
    return translation


# === Capitals ===


def is_in_capitals(text: str) -> bool:
    """Returns whether several words are in capitals, and none is not.

    Words of addresses do not count. A single word may be an abbreviation, and
    so may two short ones: there must be a word of three letters.
    """
    text = _find_addresses.sub("", text)
    # There is a capital for it, which hardly anybody writes.
    text = text.replace("\u00df", "SS")
    if any(map(str.islower, text)) or not any(map(str.isupper, text)):
        return False
    words = _find_words.findall(text)
    return len(words) > 1 and max(map(len, words)) > 2


def without_capitals(text: str, language: str, encode: Encode) -> str:
    """Returns a sentence in capitals as it is usually written.

    Args:
        text: string.
        language: string. The code of its language.
        encode: the method of the vocabulary.
    """
    text = with_usual_capitals(text.lower(), language, encode)
    return _find_words.sub(lambda word: word[0].capitalize(), text, count=1)


def with_capitals(text: str, addresses: Sequence[str]) -> str:
    """Returns a text in capitals, but for some addresses.

    Args:
        text: string.
        addresses: list of strings, as they are to be in the text.

    Example:
    >>> with_capitals("Frag me@example.org!", ["me@example.org"])
    'FRAG me@example.org!'
    """
    as_given = {address.upper(): address for address in addresses}
    return _find_address_like.sub(
        lambda found: as_given.get(found[0], found[0]), text.upper()
    )


def with_usual_capitals(text: str, language: str, encode: Encode) -> str:
    """Returns a text in lowercase with the capitals that its words need.

    A vocabulary knows whether a word, such as a name or a German noun, usually
    begins with a capital: so it has fewer pieces than in lowercase.

    Args:
        text: string.
        language: string. The code of its language.
        encode: the method of the vocabulary.
    """
    words = list(dict.fromkeys(_find_free_words.findall(text)))
    rows = encode([f for word in words for f in (word, word.capitalize())])
    usual = {}
    for word, plain, with_capital in zip(words, rows[::2], rows[1::2]):
        # Pieces of single letters, or of their bytes, are of an unknown word.
        is_known = 2 * len(with_capital) <= len(word)
        is_usual = is_known and len(with_capital) < len(plain)
        usual[word] = word.capitalize() if is_usual else word
    if language == "en":
        usual["i"] = "I"
    return _find_free_words.sub(lambda word: usual[word[0]], text)


def without_copied_capital(text: str, translation: str, encode: Encode) -> str:
    """Returns a sentence without its capital, if a word was copied for it.

    Training lines have invented names (see `write_variants` in
    `corpora/variants.py`). So a model may take the first word for a name, as it
    has a capital, and translate "Kids are cruel." as "Kids sind grausam.". The
    vocabulary knows which words are none.

    Args:
        text: string. It is returned as it is if its first word was translated,
            has no capital, is of an address or a name, or is not known in
            lowercase.
        translation: string.
        encode: the method of the vocabulary.
    """
    first, free = _find_words.search(text), _find_free_words.search(text)
    copied = _find_free_words.search(translation)
    if not first or not copied or not free or first.span() != free.span():
        return text
    word = first[0]
    if word != copied[0] or not word[0].isupper() or not word[1:].islower():
        return text
    plain, with_capital = encode([word.lower(), word])
    others = _find_words.findall(text)[1:]
    if not others:
        # As in `with_usual_capitals`.
        is_known = 2 * len(plain) <= len(word)
        is_word = is_known and len(plain) <= len(with_capital)
    else:
        # Among other words it is a name more often. Frequent names are a piece
        # in lowercase, too, and "Bill Gates" is one. "I" says nothing.
        has_surname = len(others[0]) > 1 and others[0].istitle()
        is_word = len(plain) == 1 < len(with_capital) and not has_surname
    if not is_word:
        return text
    return f"{text[: first.start()]}{word.lower()}{text[first.end() :]}"


def with_first_capital(text: str) -> str:
    """Returns a text whose first word begins with a capital."""
    return _find_words.sub(
        lambda word: word[0][0].upper() + word[0][1:], text, count=1
    )
