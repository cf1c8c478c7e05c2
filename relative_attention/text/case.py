"""Lines in capitals, in Title Case and in lowercase, in their usual case.

And a word alone, such as "Kitchen", whose capital a model may take for that of
a name, or "STOP".

A model has hardly seen such lines. The vocabulary tells how a word is usually
written: in its usual case a word has fewer pieces.
"""

import re
from collections.abc import Callable
from collections.abc import Sequence
from typing import TypeAlias

# Returns the ids of each of some texts.
Encode: TypeAlias = Callable[[list[str]], Sequence[Sequence[int]]]

# Digits and underscores are no letters.
_WORDS = re.compile(r"[^\W\d_]+")
# Without what follows an apostrophe or a digit: "Don't", "1st".
_TITLE_WORDS = re.compile(r"(?<![^\W\d_])(?<!\d)(?<![^\W_]['\u2019])[^\W\d_]+")
# Words outside addresses.
_FREE_WORDS = re.compile(r"(?<![\w@./:#?&=-])[^\W\d_]+(?![\w@/&=-]|[.:#?]\w)")
_QUOTATION_MARKS = '"\u201c\u201d\u201e\u00ab\u00bb\u2039\u203a'
_QUOTATION = re.compile(
    f"([{_QUOTATION_MARKS}] ?)"
    f"([^ {_QUOTATION_MARKS}][^{_QUOTATION_MARKS}]*?)"
    f"( ?[{_QUOTATION_MARKS}])"
)
# Languages whose nouns have capitals, so that a sentence may be of such words.
_WITH_CAPITAL_NOUNS = ("de", "lb")
# A line of at least this many words, all capitalized, is in Title Case.
_LEAST_TITLE = 3
# Words of fewer letters, all in capitals, may be abbreviations.
_LEAST_LETTERS = 3
# Languages in which the letter `i` has a dot in capitals, too.
_WITH_DOTTED_CAPITAL = ("az", "tr")


def has_letter(text: str) -> bool:
    """Returns whether a text has a letter, of any script."""
    return _WORDS.search(text) is not None


def without_quotation_marks(text: str) -> tuple[str, str, str]:
    """Returns what is before, inside and after a text all in quotation marks.

    Any other text is returned with nothing before and after it.

    Args:
        text: string.

    Example:
    >>> without_quotation_marks("« Je viens. »")
    ('« ', 'Je viens.', ' »')
    """
    found = _QUOTATION.fullmatch(text)
    return (found[1], found[2], found[3]) if found else ("", text, "")


def is_in_capitals(text: str, language: str | None, encode: Encode) -> bool:
    """Returns whether a text has several words, all in capitals.

    A single word may be an abbreviation, and so may several short ones: there
    must be a word of four letters, or one of three, and most must be one piece
    as they are usually written. A word alone must also be one piece as it is
    usually written, but not in capitals.

    Args:
        text: string.
        language: string. The code of its language, `None` if unknown.
        encode: the method of the vocabulary.
    """
    # The capital of U+00DF is hardly ever written: people write "SS".
    words = _FREE_WORDS.findall(text.replace("\u00df", "SS"))
    # Of each letter, as "BBC" may be beside Japanese letters without case.
    if not all(map(str.isupper, "".join(words))):
        return False
    longest = max(map(len, words), default=0)
    if longest < _LEAST_LETTERS:
        return False
    if len(words) > 1 and longest > _LEAST_LETTERS:
        return True
    if len(words) == 1 < len(_WORDS.findall(text)):
        return False
    forms = []
    for word in words:
        plain = lower(word, language)
        forms += [word, plain, capitalized(plain, language)]
    lengths = [*map(len, encode(forms))]
    num_known = sum(
        1 in lengths[start + 1 : start + 3]
        for start in range(0, len(lengths), 3)
    )
    if len(words) == 1:
        return lengths[0] > 1 == num_known
    return 2 * num_known > len(words)


def without_capitals(text: str, language: str | None, encode: Encode) -> str:
    """Returns a text in capitals as it is usually written.

    The first word has a capital, unless it stands alone.

    Args:
        text: string.
        language: string. The code of its language, `None` if unknown.
        encode: the method of the vocabulary.

    Example:
    >>> without_capitals("TOM LIVES IN BOSTON.", "en", vocabulary.encode)
    'Tom lives in Boston.'
    """
    usual = _with_usual_capitals(lower(text, language), language, encode)
    if len(_FREE_WORDS.findall(text)) == 1:
        return usual
    return capitalized(usual, language)


def in_usual_case(text: str, language: str | None, encode: Encode) -> str:
    """Returns a text in lowercase or in Title Case as it is usually written.

    A word alone is in lowercase if it is one piece there, and more with a
    capital.

    Args:
        text: string. Any other text is returned as it is.
        language: string. The code of its language, `None` if unknown.
        encode: the method of the vocabulary.
    """
    if text.islower():
        return _with_usual_capitals(text, language, encode)
    words = _TITLE_WORDS.findall(text)
    if language in _WITH_CAPITAL_NOUNS or not all(map(str.istitle, words)):
        return text
    if len(words) >= _LEAST_TITLE:
        return _without_title_case(text, encode)
    if len(words) == 1 == len(_WORDS.findall(text)):
        row, plain = encode([words[0], lower(words[0], language)])
        return lower(text, language) if len(plain) == 1 < len(row) else text
    return text


def _with_usual_capitals(
    text: str, language: str | None, encode: Encode
) -> str:
    """Returns a text in lowercase with the capitals that its words need.

    Names and German nouns have fewer pieces with a capital.
    """
    words = list(dict.fromkeys(_FREE_WORDS.findall(text)))
    raised = [capitalized(word, language) for word in words]
    rows = encode([form for pair in zip(words, raised) for form in pair])
    usual = {}
    for word, form, plain, with_capital in zip(
        words, raised, rows[::2], rows[1::2]
    ):
        # Pieces of single letters, or of their bytes, are of an unknown word.
        is_known = 2 * len(with_capital) <= len(word)
        is_usual = is_known and len(with_capital) < len(plain)
        usual[word] = form if is_usual else word
    if language == "en":
        usual["i"] = "I"
    return _FREE_WORDS.sub(lambda word: usual[word[0]], text)


def _without_title_case(text: str, encode: Encode) -> str:
    """Returns a text in Title Case with the capitals that its words need.

    A word that is one piece in lowercase is no name.
    """
    # Programs write "Don'T".
    _, *others = _WORDS.findall(text)
    rows = encode([word.lower() for word in others])
    plain = {
        word for word, row in zip(others, rows) if len(row) == 1 and word != "I"
    }
    is_first = iter([True])
    return _WORDS.sub(
        lambda word: (
            word[0].lower()
            if not next(is_first, False)
            and word[0] in plain
            # After "Mr." and the like stands a name; "D.C." has initials.
            and not text.endswith(". ", 0, word.start())
            and not (len(word[0]) == 1 and text.startswith(".", word.end()))
            else word[0]
        ),
        text,
    )


def begins_with_capital(text: str) -> bool:
    """Returns whether the first letter of a text is a capital."""
    found = _WORDS.search(text)
    return found is not None and found[0][0].isupper()


def capitalized(text: str, language: str | None) -> str:
    """Returns a text whose first letter is a capital."""
    return _WORDS.sub(
        lambda word: upper(word[0][0], language) + word[0][1:], text, count=1
    )


def lower(text: str, language: str | None) -> str:
    """Returns a text in lowercase."""
    if language in _WITH_DOTTED_CAPITAL:
        text = text.replace("\u0130", "i").replace("I", "\u0131")
    return text.lower()


def upper(text: str, language: str | None) -> str:
    """Returns a text in capitals."""
    if language in _WITH_DOTTED_CAPITAL:
        text = text.replace("i", "\u0130")
    return text.upper()
