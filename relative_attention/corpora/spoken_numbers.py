"""Generates a small parallel corpus of numbers, dates and times in words.

A sentence is a template of its kind with a value in it. The second half of the
file writes values in English, German and French words, with `num2words` and
`Babel` where these have the words.
"""

import datetime
import functools
import itertools
import pathlib
import random
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from relative_attention.data import ParallelCorpus
from relative_attention.errors import InputError
from relative_attention.errors import check_packages
from relative_attention.files import write_lines

LANGUAGES = ("en", "de", "fr")

# The share of the values of each kind that only validation has, and the share
# that only test has, for any number of pairs.
_HELD_OUT_SHARE = 0.05

# Sentences in the order of `LANGUAGES`. Counted things are masculine in French,
# and the German endings are those of the case that the verb asks for.
_SENTENCES = {
    "count": (
        ("they counted {} birds.", "sie zählten {} Vögel.",
         "ils ont compté {} oiseaux."),
        ("the village has {} inhabitants.", "das Dorf hat {} Einwohner.",
         "le village compte {} habitants."),
        ("{} visitors came yesterday.", "gestern kamen {} Besucher.",
         "{} visiteurs sont venus hier."),
        ("we have sold {} tickets.", "wir haben {} Karten verkauft.",
         "nous avons vendu {} billets."),
    ),
    "money": (
        ("the picture costs {}.", "das Bild kostet {}.",
         "le tableau coûte {}."),
        ("he paid {} for it.", "er hat {} dafür bezahlt.",
         "il a payé {} pour cela."),
        ("she owes us {}.", "sie schuldet uns {}.", "elle nous doit {}."),
        ("we saved {} this year.", "wir haben dieses Jahr {} gespart.",
         "nous avons économisé {} cette année."),
    ),
    "ordinal": (
        ("she is the {} in the queue.", "sie ist die {} in der Schlange.",
         "elle est la {} dans la file."),
        ("he finished in {} place.", "er hat den {}n Platz belegt.",
         "il a fini à la {} place."),
        ("this is my {} letter to you.", "das ist mein {}r Brief an dich.",
         "c'est ma {} lettre pour toi."),
        ("we welcome the {} guest today.", "heute begrüßen wir den {}n Gast.",
         "aujourd'hui, nous accueillons le {} invité."),
    ),
    "date": (
        ("the meeting is on {}.", "die Besprechung findet am {} statt.",
         "la réunion a lieu le {}."),
        ("she was born on {}.", "sie wurde am {} geboren.",
         "elle est née le {}."),
        ("the bridge was opened on {}.", "die Brücke wurde am {} eröffnet.",
         "le pont a été inauguré le {}."),
        ("on {}, it rained all day.", "am {} regnete es den ganzen Tag.",
         "le {}, il a plu toute la journée."),
    ),
    "weekday": (
        ("the course starts on {}.", "der Kurs fängt am {}, an.",
         "le cours commence le {}."),
        ("we leave on {}.", "wir reisen am {}, ab.", "nous partons le {}."),
        ("the parcel arrived on {}.", "das Paket ist am {}, angekommen.",
         "le colis est arrivé le {}."),
        ("the library is closed on {}.",
         "die Bibliothek ist am {}, geschlossen.",
         "la bibliothèque est fermée le {}."),
    ),
    "time": (
        ("the train leaves at {}.", "der Zug fährt um {} ab.",
         "le train part à {}."),
        ("today, the shop closes at {}.", "der Laden schließt heute um {}.",
         "aujourd'hui, le magasin ferme à {}."),
        ("we will call you at {}.", "wir rufen Sie um {} an.",
         "nous vous appellerons à {}."),
        ("the film begins at {}.", "der Film fängt um {} an.",
         "le film commence à {}."),
    ),
}  # fmt: skip


def write_spoken_numbers(
    directory: pathlib.Path | str,
    languages: Sequence[str] = ("en", "de"),
    train_pairs: int = 20_000,
    validation_pairs: int = 500,
    test_pairs: int = 500,
    seed: int = 0,
) -> dict[str, ParallelCorpus]:
    """Writes sentences about numbers, with all numbers in words.

    There are six kinds in equal shares: counts, amounts of money, ordinals,
    dates with a year, dates with a weekday, and times of day. A value, such as
    a date, is in one of the three parts only. So BLEU on the test part shows
    whether a model generalizes or only memorizes. The same arguments give the
    same files, and the values of a part are the same in every language.

    Args:
        directory: string or path. The folder for `train.en`, `train.de`,
            `validation.en`, ..., `test.de`.
        languages: pair of strings among `en`, `de` and `fr`, the source
            first. Defaults to `("en", "de")`.
        train_pairs: int. Number of lines of each training file.
        validation_pairs: int. Number of lines of each validation file.
        test_pairs: int. Number of lines of each test file.
        seed: int. Seed of the held-out values and of the order of the lines.

    Returns:
        dict. The `ParallelCorpus` of `"train"`, `"validation"` and `"test"`.

    Raises:
        InputError: if `languages` is not two of the three, a number of pairs
            is not positive or too large, or `num2words` or `Babel` is not
            installed.
    """
    if len(languages) != 2 or len({*LANGUAGES} & {*languages}) != 2:
        raise InputError(
            f"`languages` must be two different ones of {', '.join(LANGUAGES)}."
            f" Received: languages={languages!r}."
        )
    values = {kind: _split_values(kind, seed) for kind in _SENTENCES}
    sizes = dict(
        train=train_pairs, validation=validation_pairs, test=test_pairs
    )
    for part, size in sizes.items():
        _check_size(part, size, values)
    # Before anything is written.
    check_packages(
        "The corpus of spoken numbers needs the extra `demo`",
        "demo",
        "babel",
        "num2words",
    )
    corpora = {}
    for part, size in sizes.items():
        chosen = _choose(values, part, size, random.Random(f"{seed} {part}"))
        paths = [str(pathlib.Path(directory, f"{part}.{n}")) for n in languages]
        for path, language in zip(paths, languages):
            write_lines(path, (_sentence(*one, language) for one in chosen))
        corpora[part] = ParallelCorpus(*paths)
    return corpora


def _check_size(
    part: str, size: int, values: Mapping[str, Mapping[str, Sequence[Any]]]
) -> None:
    """Raises `InputError` unless there are enough different lines."""
    most = len(values) * min(
        len(values[kind][part]) * len(sentences)
        for kind, sentences in _SENTENCES.items()
    )
    if not isinstance(size, int) or not 0 < size <= most:
        raise InputError(
            f"`{part}_pairs` must be an int from 1 to {most}. "
            f"Received: {part}_pairs={size!r}."
        )


def _sentence(kind: str, number: int, value: Any, language: str) -> str:
    """Says a value in one of the sentences of its kind."""
    template = _SENTENCES[kind][number][LANGUAGES.index(language)]
    return template.format(say(kind, value, language))


def _values(kind: str) -> list[Any]:
    """Returns every value of a kind, as `say` takes it."""
    if kind == "count":
        # Without 101 and the like, for which German has "hunderteins Vögel",
        # "hundertein Vögel" and "hundertundein Vogel".
        return [number for number in range(2, 10_000) if number % 100 != 1]
    if kind == "money":
        euros = [("EUR", e, c) for e in range(1, 200) for c in range(100)]
        whole = itertools.product(("USD", "CHF"), range(1, 5000), (0,))
        return euros + list(whole)
    if kind == "ordinal":
        return list(range(2, 1000))
    if kind == "date":
        first = datetime.date(1950, 1, 1).toordinal()
        last = datetime.date(2049, 12, 31).toordinal()
        dates = map(datetime.date.fromordinal, range(first, last + 1))
        return [(date.day, date.month, date.year) for date in dates]
    if kind == "weekday":
        first = datetime.date(2024, 1, 1).toordinal()  # A leap year.
        dates = map(datetime.date.fromordinal, range(first, first + 366))
        return [(w, date.day, date.month) for date in dates for w in range(7)]
    # Without noon, which has its own name in some languages.
    times = itertools.product(range(6, 24), range(60))
    return [time for time in times if time != (12, 0)]


def _split_values(kind: str, seed: int) -> dict[str, list[Any]]:
    """Divides the values of a kind among the parts, at random."""
    values = _values(kind)
    random.Random(f"{seed} {kind}").shuffle(values)
    held_out = int(len(values) * _HELD_OUT_SHARE)
    return {
        "test": values[:held_out],
        "validation": values[held_out : 2 * held_out],
        "train": values[2 * held_out :],
    }


def _choose(
    values: Mapping[str, Mapping[str, Sequence[Any]]],
    part: str,
    size: int,
    rng: random.Random,
) -> list[tuple[str, int, Any]]:
    """Draws different triples of kind, number of the sentence and value."""
    chosen = []
    for turn, (kind, sentences) in enumerate(_SENTENCES.items()):
        # The shares are equal, or one larger for the first kinds.
        share = (size - turn + len(values) - 1) // len(values)
        candidates = values[kind][part]
        for draw in rng.sample(range(len(candidates) * len(sentences)), share):
            value, sentence = divmod(draw, len(sentences))
            chosen.append((kind, sentence, candidates[value]))
    rng.shuffle(chosen)
    return chosen


def say(kind: str, value: Any, language: str) -> str:
    """Says a value in words.

    Args:
        kind: string. `"count"`, `"money"`, `"ordinal"`, `"date"`, `"weekday"`
            or `"time"`.
        value: int for counts and ordinals; (currency, units, cents) for
            money; (day, month, year), (weekday, day, month) or (hour, minute)
            for dates, weekdays and times.
        language: string. `"en"`, `"de"` or `"fr"`.

    Returns:
        string.

    Example:
    >>> say("time", (17, 25), "de")
    'fünf vor halb sechs abends'
    """
    speakers: dict[str, Callable[[Any, str], str]] = {
        "count": _number,
        "money": _say_money,
        "ordinal": _say_ordinal,
        "date": _say_date,
        "weekday": _say_weekday,
        "time": _say_time,
    }
    return speakers[kind](value, language)


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
    """Says a day of a month, as after "on", "am" and "le"."""
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

    English and German read multiples of five minutes from the face of a clock,
    and give other minutes as numbers. French always gives numbers. French, and
    German with numbers, count twenty-four hours; otherwise the part of the day
    is added.
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

    # One minute past the hour, as noon itself is a separate period.
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
