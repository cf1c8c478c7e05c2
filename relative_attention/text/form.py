"""The one form of text that models read, in Python and in graphs."""

import functools
import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf

# Each stands for something that must not be translated; see `placeholders`.
# Users cannot write them, as `clean_text` takes control characters out.
SIGNS = "\x01\x02\x03\x04\x05\x06\x07\x08"

# Letters of scripts whose words have no blanks around them: Thai, Lao, Burmese,
# Khmer, Japanese and Chinese; no digits. As a part of a class in a pattern.
UNSPACED_LETTERS = (
    "\u0e00-\u0e4f\u0e5a-\u0ecf\u0eda-\u0eff\u1000-\u103f\u104a-\u108f"
    "\u109a-\u109f\u1780-\u17df\u17ea-\u17ff\u3005-\u3007\u3040-\u30ff"
    "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
UNSPACED = re.compile(f"[{UNSPACED_LETTERS}]")

# All their characters, which scores and counts of words take one by one. As
# parts of a class: Chinese; and Thai, Lao, Tibetan, Burmese, Khmer, kana.
HAN = "\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
OTHERS_WITHOUT_BLANKS = "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff"

# Invisible characters: control characters that are no white space, the soft
# hyphen, the zero-width space, the word joiner and the byte order mark. Joiners
# (U+200C, U+200D) and marks of direction stay, as scripts and emoji need them.
_INVISIBLE_BUT_SIGNS = "\x00\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u200b\u2060\ufeff"
_INVISIBLE = f"[{SIGNS}{_INVISIBLE_BUT_SIGNS}]+"
# What Python's `str.split` takes for white space, line ends included, and
# U+2581, which SentencePiece reads as a blank.
_BLANKS = (
    "[\t-\r\x1c-\x20\x85\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f"
    "\u2581\u3000]+"
)
# Before it, all characters are composed.
_FIRST_MARK = "\u0300"
_find_invisible = re.compile(_INVISIBLE)
_find_invisible_but_signs = re.compile(f"[{_INVISIBLE_BUT_SIGNS}]+")
_find_blanks = re.compile(_BLANKS)


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


def is_of_spaced_word(character: str) -> bool:
    """Returns whether a character is of a word with blanks around it."""
    return character.isalnum() and not UNSPACED.match(character)


def clean_text(text: str, keep_signs: bool = False) -> str:
    """Returns a text in the form in which models read it.

    Blanks of all kinds, such as tabs, line ends and U+00A0, become one blank
    between two words, and none at the beginning and the end. Characters are
    composed (Unicode's form NFC). Control characters, soft hyphens (U+00AD),
    zero-width spaces (U+200B), word joiners (U+2060) and byte order marks
    (U+FEFF) are left out; joiners (U+200C, U+200D), which scripts and emoji
    need, stay. U+2581, which SentencePiece reads as a blank, is one. Of more
    than 30 combining marks in a row, the first 30 stay.

    `Vocabulary` cleans all it encodes and learns from, so this function is for
    text that is encoded elsewhere, for example by SentencePiece for what
    `export_ctranslate2` wrote.

    Args:
        text: string.
        keep_signs: bool. Whether to keep U+0001 to U+0008, which stand for
            what must not be translated. For text that the package prepared
            itself. Defaults to `False`.

    Returns:
        String. Cleaned again it stays the same.

    Example:
    >>> ra.clean_text(" A\\tman\\u00a0rides.\\r\\n")
    'A man rides.'
    """
    return " ".join(composed(text, keep_signs).replace("\u2581", " ").split())


def clean_lines(text: str, keep_signs: bool = False) -> str:
    """Returns a text in the same form, but with its line ends, as `\\n`."""
    return _find_blanks.sub(
        lambda run: "\n" * run[0].count("\n") or " ",
        composed(text, keep_signs),
    ).strip()


def composed(text: str, keep_signs: bool = False) -> str:
    """Returns a text without invisible characters, and composed."""
    # Most text is printable, and takes a third of the time.
    if not text.isprintable():
        find = _find_invisible_but_signs if keep_signs else _find_invisible
        text = find.sub("", text)
    if max(text, default="") < _FIRST_MARK:
        return text
    # Invisible characters are removed first, so that a letter and an accent
    # with such a character between them are composed, too. NFC may make two
    # marks of one, so runs are cut again.
    return _bounded(unicodedata.normalize("NFC", _bounded(text)))


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
