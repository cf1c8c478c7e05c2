"""Says numbers, amounts, dates and times in words, in three languages."""

import datetime
import functools
from collections.abc import Callable
from typing import Any

from relative_attention.errors import InputError
from relative_attention.install_hint import install_hint


def check_packages() -> None:
    """Raises `InputError` if a package that knows the words is missing."""
    try:
        import babel  # noqa: F401
        import num2words  # noqa: F401
    except ImportError as error:
        raise InputError(
            "The corpus of spoken numbers needs `num2words` and `Babel` "
            f"({error}). Install them with {install_hint('demo')}."
        ) from error


def say(kind: str, value: Any, language: str) -> str:
    """Says a value in words.

    Args:
        kind: string. `"count"`, `"money"`, `"ordinal"`, `"date"`, `"weekday"`
            or `"time"`.
        value: int for counts and ordinals; for the others a tuple, see
            `spoken_numbers`.
        language: string. `"en"`, `"de"` or `"fr"`.

    Returns:
        string.

    Example:
    >>> say("time", (17, 25), "de")
    'fünf vor halb sechs abends'
    """
    return _SPEAKERS[kind](value, language)


def _say_money(amount: tuple[str, int, int], language: str) -> str:
    """Says an amount: "two euros", "zwei Euro", "deux euros"."""
    from babel.numbers import get_currency_name

    currency, units, cents = amount
    name = get_currency_name(currency, units, locale=language)
    words = f"{_counted(units, language)} {name}"
    if not cents:
        return words
    # Babel knows no subunits, and num2words says "two euro" in English.
    conjunction, cent, plural = {
        "en": ("and", "cent", "s"),
        "de": ("und", "Cent", ""),
        "fr": ("et", "centime", "s"),
    }[language]
    plural = "" if cents == 1 else plural
    return f"{words} {conjunction} {_counted(cents, language)} {cent}{plural}"


def _say_ordinal(number: int, language: str) -> str:
    """Says an ordinal: "second", "zweite", "deuxième"."""
    words = _number(number, language, "ordinal")
    # num2words keeps the plural of "vingts" and "cents": "deux centsième".
    return words.replace("tsième", "tième") if language == "fr" else words


def _say_date(date: tuple[int, int, int], language: str) -> str:
    """Says a day, a month and a year."""
    day, month, year = date
    words = _number(year, language, "year")
    return f"{_say_day(day, month, language)} {words}"


def _say_weekday(date: tuple[int, int, int], language: str) -> str:
    """Says a weekday, a day and a month: "Montag, dem ersten Mai"."""
    from babel.dates import get_day_names

    weekday, day, month = date
    name = get_day_names(locale=language)[weekday]
    comma = ", dem" if language == "de" else ""
    return f"{name}{comma} {_say_day(day, month, language)}"


def _say_day(day: int, month: int, language: str) -> str:
    """Says a day of a month, as it follows "on", "am" and "le"."""
    from babel.dates import get_month_names

    name = get_month_names(locale=language)[month]
    if language == "fr":
        # Only the first is an ordinal.
        words = _number(day, "fr", "ordinal" if day == 1 else "cardinal")
        return f"{words} {name}"
    words = _number(day, language, "ordinal")
    if language == "de":
        return f"{words}n {name}"
    return f"the {words} of {name}"


def _say_time(time: tuple[int, int], language: str) -> str:
    """Says a time of day.

    English and German say multiples of five minutes as on the face of a
    clock, and other minutes by their number. French always says the number.
    French, and German numbers, count the hours to twenty-four; the others add
    the part of the day.
    """
    hour, minute = time
    if language == "fr":
        words = f"{_feminine(hour)} heures"
        return f"{words} {_feminine(minute)}" if minute else words
    if language == "en":
        return f"{_english_time(hour, minute)} {_period(hour, 'en')}"
    if minute % 5:
        return f"{_number(hour, 'de')} Uhr {_number(minute, 'de')}"
    return f"{_german_clock(hour, minute)} {_period(hour, 'de')}"


def _english_time(hour: int, minute: int) -> str:
    """Says a time as in "a quarter to eight" or "nine oh-one"."""
    this, following = _twelve_hours(hour, "en")
    if minute == 0:
        return f"{this} o'clock"
    if minute % 5:
        oh = "oh-" if minute < 10 else ""
        return f"{this} {oh}{_number(minute, 'en')}"
    distance = min(minute, 60 - minute)
    # num2words has no fractions of an hour.
    words = {15: "a quarter", 30: "half"}.get(distance)
    words = words or _number(distance, "en")
    return f"{words} past {this}" if minute <= 30 else f"{words} to {following}"


def _german_clock(hour: int, minute: int) -> str:
    """Says a multiple of five minutes as in "fünf vor halb acht"."""
    this, following = _twelve_hours(hour, "de")
    if minute == 0:
        return f"{'ein' if this == 'eins' else this} Uhr"
    if minute == 30:
        return f"halb {following}"
    if minute in (25, 35):
        side = "vor" if minute == 25 else "nach"
        return f"{_number(5, 'de')} {side} halb {following}"
    distance = min(minute, 60 - minute)
    words = "Viertel" if distance == 15 else _number(distance, "de")
    return f"{words} nach {this}" if minute < 30 else f"{words} vor {following}"


def _twelve_hours(hour: int, language: str) -> tuple[str, str]:
    """Returns the hour and the next one, as on the face of a clock."""
    this, following = (
        _number((number - 1) % 12 + 1, language) for number in (hour, hour + 1)
    )
    return this, following


def _period(hour: int, language: str) -> str:
    """Returns the part of the day, such as "in the evening" or "abends"."""
    from babel.dates import get_period_id
    from babel.dates import get_period_names

    # A minute past the hour, since noon itself is a period of its own.
    period = get_period_id(datetime.time(hour, 1), locale=language)
    return get_period_names("wide", "format", language)[period]


def _counted(number: int, language: str) -> str:
    """Says a number before a masculine or neuter noun: "ein", not "eins"."""
    words = _number(number, language)
    if language == "de" and number % 100 == 1:
        return words.removesuffix("s")
    return words


def _feminine(number: int) -> str:
    """Says a number of hours or minutes in French: "vingt et une"."""
    words = _number(number, "fr")
    return words + "e" if words.endswith("un") else words


@functools.cache
def _number(number: int, language: str, form: str = "cardinal") -> str:
    """Says a number in the cardinal, ordinal or year form of num2words."""
    import num2words

    return num2words.num2words(number, lang=language, to=form)


_SPEAKERS: dict[str, Callable[[Any, str], str]] = {
    "count": _number,
    "money": _say_money,
    "ordinal": _say_ordinal,
    "date": _say_date,
    "weekday": _say_weekday,
    "time": _say_time,
}
