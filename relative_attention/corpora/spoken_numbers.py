"""A small parallel corpus, generated: numbers, dates and times in words."""

import datetime
import functools
import itertools
import pathlib
import random

from relative_attention.atomic_files import atomic_file
from relative_attention.data.parallel_corpus import ParallelCorpus
from relative_attention.errors import InputError
from relative_attention.install_hint import install_hint

LANGUAGES = ("en", "de", "fr")

# Of the values of each kind, this share is only in validation, as much again
# only in test. It does not depend on how many pairs are asked for.
_HELD_OUT_SHARE = 0.05

# Sentences in the order of `LANGUAGES`. What is counted is masculine in
# French, and the German endings are those of the case that the verb asks for.
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
    directory,
    languages=("en", "de"),
    train_pairs=20_000,
    validation_pairs=500,
    test_pairs=500,
    seed=0,
):
    """Write sentences about numbers, with all numbers in words.

    Six kinds in equal parts: counts, amounts of money, ordinals, dates with a
    year, dates with a weekday, and times of day. A value, say the date of a
    meeting, is in one of the three parts only, whatever its sentence; so BLEU
    on the test part tells whether numbers are understood or learnt by heart.
    The same arguments give the same files, and the values of a part are the
    same in every language.

    Args:
        directory: string or path. Where `train.en`, `train.de`,
            `validation.en`, ..., `test.de` go.
        languages: pair of strings among `en`, `de` and `fr`, the source
            first. Defaults to `("en", "de")`.
        train_pairs: int. Number of lines of either training file.
        validation_pairs: int. The same of the validation files.
        test_pairs: int. The same of the test files.
        seed: int. Which values are held out, and the order of the lines.

    Returns:
        dict. The `ParallelCorpus` of `"train"`, `"validation"` and `"test"`.

    Raises:
        InputError: if `languages` is not two of the three, a number of pairs
            is not positive or more than there are, or `num2words` or `Babel`
            is not installed.
    """
    known = set(LANGUAGES)
    if len(languages) != 2 or len(known.intersection(languages)) != 2:
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
    _check_packages()
    return {
        part: _write_part(
            [pathlib.Path(directory, f"{part}.{name}") for name in languages],
            languages,
            _choose(values, part, size, random.Random(f"{seed} {part}")),
        )
        for part, size in sizes.items()
    }


def _check_size(part, size, values):
    most = len(values) * min(
        len(values[kind][part]) * len(sentences)
        for kind, sentences in _SENTENCES.items()
    )
    if not isinstance(size, int) or not 0 < size <= most:
        raise InputError(
            f"`{part}_pairs` must be an int from 1 to {most}. "
            f"Received: {part}_pairs={size!r}."
        )


def _write_part(paths, languages, chosen):
    for path, language in zip(paths, languages):
        with atomic_file(path, "w") as file:
            file.writelines(f"{_say(*it, language)}\n" for it in chosen)
    return ParallelCorpus(*map(str, paths))


def _check_packages():
    """Say how to get what speaks, before anything is written."""
    try:
        import babel  # noqa: F401
        import num2words  # noqa: F401
    except ImportError as error:
        raise InputError(
            "The corpus of spoken numbers needs `num2words` and `Babel` "
            f"({error}). Install them with {install_hint('demo')}."
        ) from error


def _values(kind):
    """Every value of a kind that has a sentence in all the languages."""
    if kind == "count":
        # Not 101 and the like: German wavers between "hunderteins Vögel",
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
        first = datetime.date(2024, 1, 1).toordinal()  # a leap year
        dates = map(datetime.date.fromordinal, range(first, first + 366))
        return [(w, date.day, date.month) for date in dates for w in range(7)]
    # Noon is left out: it has a name of its own in some languages.
    times = itertools.product(range(6, 24), range(60))
    return [time for time in times if time != (12, 0)]


def _split_values(kind, seed):
    values = _values(kind)
    random.Random(f"{seed} {kind}").shuffle(values)
    held_out = int(len(values) * _HELD_OUT_SHARE)
    return {
        "test": values[:held_out],
        "validation": values[held_out : 2 * held_out],
        "train": values[2 * held_out :],
    }


def _choose(values, part, size, rng):
    """Draw `size` triples of kind, number of the sentence and value."""
    chosen = []
    for turn, (kind, sentences) in enumerate(_SENTENCES.items()):
        # Equal shares; the first kinds take what is left over.
        share = (size - turn + len(values) - 1) // len(values)
        candidates = values[kind][part]
        for draw in rng.sample(range(len(candidates) * len(sentences)), share):
            value, sentence = divmod(draw, len(sentences))
            chosen.append((kind, sentence, candidates[value]))
    rng.shuffle(chosen)
    return chosen


def _say(kind, sentence, value, language):
    template = _SENTENCES[kind][sentence][LANGUAGES.index(language)]
    return template.format(_SPEAKERS[kind](value, language))


def _say_money(amount, language):
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


def _say_ordinal(number, language):
    words = _number(number, language, "ordinal")
    # num2words keeps the plural: "quatre-vingtsième", "deux centsième".
    return words.replace("tsième", "tième") if language == "fr" else words


def _say_date(date, language):
    day, month, year = date
    words = _number(year, language, "year")
    return f"{_say_day(day, month, language)} {words}"


def _say_weekday(date, language):
    from babel.dates import get_day_names

    weekday, day, month = date
    name = get_day_names(locale=language)[weekday]
    comma = ", dem" if language == "de" else ""
    return f"{name}{comma} {_say_day(day, month, language)}"


def _say_day(day, month, language):
    """A day of a month, after "on", "am" and "le"."""
    from babel.dates import get_month_names

    month = get_month_names(locale=language)[month]
    if language == "fr":
        # Only the first is an ordinal.
        words = _number(day, "fr", "ordinal" if day == 1 else "cardinal")
        return f"{words} {month}"
    words = _number(day, language, "ordinal")
    if language == "de":
        return f"{words}n {month}"
    return f"the {words} of {month}"


def _say_time(time, language):
    """By the clock's face at multiples of five minutes, else by its digits.

    French, and German digits, count the hours to twenty-four; the others add
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


def _english_time(hour, minute):
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


def _german_clock(hour, minute):
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


def _twelve_hours(hour, language):
    """The hour and the next, on the face of a clock."""
    return [_number((h - 1) % 12 + 1, language) for h in (hour, hour + 1)]


def _period(hour, language):
    """Part of the day, as after a time: "in the evening", "abends"."""
    from babel.dates import get_period_id
    from babel.dates import get_period_names

    # A minute past, for on the hour "noon" is a period of its own.
    period = get_period_id(datetime.time(hour, 1), locale=language)
    return get_period_names("wide", "format", language)[period]


def _counted(number, language):
    """A number before a masculine or neuter noun: "ein", not "eins"."""
    words = _number(number, language)
    if language == "de" and number % 100 == 1:
        return words.removesuffix("s")
    return words


def _feminine(number):
    """A number of hours or minutes in French: "vingt et une"."""
    words = _number(number, "fr")
    return words + "e" if words.endswith("un") else words


@functools.cache
def _number(number, language, form="cardinal"):
    import num2words

    return num2words.num2words(number, lang=language, to=form)


_SPEAKERS = {
    "count": _number,
    "money": _say_money,
    "ordinal": _say_ordinal,
    "date": _say_date,
    "weekday": _say_weekday,
    "time": _say_time,
}
