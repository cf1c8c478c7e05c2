"""Generates a small parallel corpus of numbers, dates and times in words."""

import datetime
import itertools
import pathlib
import random
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import TypeAlias

from relative_attention.atomic_files import atomic_file
from relative_attention.corpora.spoken_words import check_packages
from relative_attention.corpora.spoken_words import say
from relative_attention.data.parallel_corpus import ParallelCorpus
from relative_attention.errors import InputError

LANGUAGES = ("en", "de", "fr")

# Values of a kind by part: `"train"`, `"validation"` and `"test"`.
_Parts: TypeAlias = Mapping[str, Sequence[Any]]
# Kind, number of the sentence, and value.
_Choice: TypeAlias = tuple[str, int, Any]

# This share of the values of each kind is in validation alone, and as many are
# in test alone. It does not depend on the number of pairs.
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

    There are six kinds in equal parts: counts, amounts of money, ordinals,
    dates with a year, dates with a weekday, and times of day. A value, say
    the date of a meeting, is in one of the three parts only, whatever its
    sentence. So BLEU on the test part tells whether numbers are understood or
    learnt by heart. The same arguments give the same files, and the values of
    a part are the same in every language.

    Args:
        directory: string or path. The folder in which `train.en`, `train.de`,
            `validation.en`, ..., `test.de` are written.
        languages: pair of strings among `en`, `de` and `fr`, the source
            first. Defaults to `("en", "de")`.
        train_pairs: int. Number of lines of either training file.
        validation_pairs: int. Number of lines of either validation file.
        test_pairs: int. Number of lines of either test file.
        seed: int. Seed of which values are held out, and of the order of the
            lines.

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
    # Before anything is written.
    check_packages()
    return {
        part: _write_part(
            [pathlib.Path(directory, f"{part}.{name}") for name in languages],
            languages,
            _choose(values, part, size, random.Random(f"{seed} {part}")),
        )
        for part, size in sizes.items()
    }


def _check_size(part: str, size: int, values: Mapping[str, _Parts]) -> None:
    """Raises `InputError` unless a part can have so many different lines."""
    most = len(values) * min(
        len(values[kind][part]) * len(sentences)
        for kind, sentences in _SENTENCES.items()
    )
    if not isinstance(size, int) or not 0 < size <= most:
        raise InputError(
            f"`{part}_pairs` must be an int from 1 to {most}. "
            f"Received: {part}_pairs={size!r}."
        )


def _write_part(
    paths: Sequence[pathlib.Path],
    languages: Sequence[str],
    choices: Sequence[_Choice],
) -> ParallelCorpus:
    """Writes the sentences of a part, in both languages."""
    for path, language in zip(paths, languages):
        with atomic_file(path, "w") as file:
            for choice in choices:
                file.write(f"{_sentence(*choice, language)}\n")
    return ParallelCorpus(*map(str, paths))


def _sentence(kind: str, number: int, value: Any, language: str) -> str:
    """Says a value in one of the sentences of its kind."""
    template = _SENTENCES[kind][number][LANGUAGES.index(language)]
    return template.format(say(kind, value, language))


def _values(kind: str) -> list[Any]:
    """Returns every value of a kind that can be said in all the languages.

    Returns:
        List of int for counts and ordinals; of (currency, units, cents) for
        money; of (day, month, year), (weekday, day, month) or (hour, minute)
        for dates, weekdays and times.
    """
    if kind == "count":
        # 101 and the like are left out: German wavers between "hunderteins
        # Vögel", "hundertein Vögel" and "hundertundein Vogel".
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
    # Noon is left out: it has a name of its own in some languages.
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
    values: Mapping[str, _Parts], part: str, size: int, rng: random.Random
) -> list[_Choice]:
    """Draws different triples of kind, number of the sentence and value.

    Args:
        values: the values of each kind, by part.
        part: string. The part to draw from.
        size: int. Number of triples.
        rng: `random.Random`.
    """
    chosen = []
    for turn, (kind, sentences) in enumerate(_SENTENCES.items()):
        # The shares are equal, or one more in the first kinds.
        share = (size - turn + len(values) - 1) // len(values)
        candidates = values[kind][part]
        for draw in rng.sample(range(len(candidates) * len(sentences)), share):
            value, sentence = divmod(draw, len(sentences))
            chosen.append((kind, sentence, candidates[value]))
    rng.shuffle(chosen)
    return chosen
