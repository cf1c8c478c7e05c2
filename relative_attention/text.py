"""Text as models read it: in one form, whatever form it came in."""

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf

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
_find_invisible = re.compile(_INVISIBLE)


def clean_text(text: str) -> str:
    """Returns a text in the form in which models read it.

    Blanks of all kinds, such as tabs, line ends and U+00A0, become one blank
    between two words, and none at the beginning and the end. Characters are
    composed (Unicode's form NFC). Control characters, soft hyphens (U+00AD),
    zero-width spaces (U+200B), word joiners (U+2060) and byte order marks
    (U+FEFF) are left out; joiners (U+200C, U+200D), which scripts and emoji
    need, stay. U+2581, which SentencePiece reads as a blank, is one.

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
    # Most text is printable, and takes a third of the time.
    if not text.isprintable():
        text = _find_invisible.sub("", text)
    # Last, so that letters and accents with something invisible between them
    # are composed, too.
    text = unicodedata.normalize("NFC", text)
    return " ".join(text.replace("\u2581", " ").split())


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
    texts = tensorflow_text.normalize_utf8(texts, "NFC")
    return tf.strings.strip(tf.strings.regex_replace(texts, _BLANKS, " "))
