"""Signs in a text that is searched, and what they stand for.

A sign is U+0001 to U+0008. A model that was trained with signs (see
`corpora.variants`) carries them over.
"""

import collections
import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

from relative_attention.text.form import SIGNS
from relative_attention.text.form import UNSPACED
from relative_attention.text.patterns import PAIRED
from relative_attention.text.patterns import QUOTATION_MARK

_SIGN = re.compile(f"[{SIGNS}]")


class Thing(NamedTuple):
    """Something that must not be translated.

    Attributes:
        text: string, what is put back.
        is_word: bool. Whether it is a part of the sentence, such as an address
            or a number; otherwise it is a mark, a tag or an emoji.
        order: string. Things of the same kind stay in their order, whatever
            their signs do: tags, brackets, and fields without a name. Empty for
            others.
        is_glued_before, is_glued_after: bool. Whether a letter stood next to
            it, where its sign has a blank.
    """

    text: str
    is_word: bool
    order: str = ""
    is_glued_before: bool = False
    is_glued_after: bool = False


def numbered(text: str) -> str:
    """Returns a text with its signs numbered, from the first."""
    signs = itertools.cycle(SIGNS)
    return _SIGN.sub(lambda _: next(signs), text)


def num_signs(text: str) -> int:
    """Returns how many signs a text has."""
    return len(_SIGN.findall(text))


def without_signs(text: str) -> str:
    """Returns a text without signs, for which nothing stands."""
    return _SIGN.sub("", text)


def has_all_signs(text: str, count: int) -> bool:
    """Returns whether a text has each of the first signs once, and no other."""
    return sorted(_SIGN.findall(text)) == sorted(SIGNS[:count])


def with_things(text: str, things: Sequence[Thing]) -> str:
    """Returns a text with things in the place of their signs.

    Args:
        text: string, with each sign once.
        things: list of `Thing`, by the numbers of their signs.
    """
    numbers = [SIGNS.index(sign) for sign in _SIGN.findall(text)]
    # Signs of a kind that keeps its order take the places of their kind.
    ordered = {
        order: iter([thing for thing in things if thing.order == order])
        for order in {thing.order for thing in things}
    }
    chosen = [
        next(ordered[things[number].order])
        if things[number].order
        else things[number]
        for number in numbers
    ]
    return joined(_SIGN.split(text), chosen)


def joined(parts: Sequence[str], things: Sequence[Thing]) -> str:
    """Returns parts of a text with a thing between any two."""
    text = parts[0]
    for thing, part in zip(things, parts[1:]):
        # The blank beside a sign was added, or the language has no blanks
        # between words.
        if text.endswith(" ") and (
            thing.is_glued_before or UNSPACED.match(text[-2:-1])
        ):
            text = text[:-1]
        if part.startswith(" ") and (
            thing.is_glued_after or UNSPACED.match(part[1:2])
        ):
            part = part[1:]
        text = f"{text}{thing.text}{part}"
    return text


_BRACKETS = dict(zip(")]}", "([{"))
# Languages open with what others close with.
_QUOTE = '"'


def name_and_end(mark: re.Match[str]) -> tuple[str, bool]:
    """Returns what a match of `PAIRED` opens or ends, and whether it ends."""
    if mark["mark"] and QUOTATION_MARK.match(mark["mark"]):
        return _QUOTE, False
    name = mark["tag"] or mark["mark"] or mark["open"]
    return name or _BRACKETS[mark["close"]], bool(mark["end"] or mark["close"])


def _partners(
    parts: Sequence[str], things: Sequence[Thing]
) -> dict[int, set[int]]:
    """Returns, for things that open or close, the numbers of their partners."""
    partners: dict[int, set[int]] = collections.defaultdict(set)
    opened: list[tuple[str, int]] = []
    num_open: collections.Counter[str] = collections.Counter()
    for number, (thing, part) in enumerate(zip(things, parts[1:])):
        if thing.is_word and not thing.order:
            continue
        # The mark of an item has a blank after it.
        is_item = part.startswith(" ") and not thing.is_glued_after
        for found in PAIRED.finditer(thing.text):
            name, is_end = name_and_end(found)
            if num_open[name] and (is_end or found["mark"]):
                other = ""
                while other != name:
                    other, start = opened.pop()
                    num_open[other] -= 1
                partners[start].add(number)
                partners[number].add(start)
            elif name == _QUOTE or not (is_end or (found["mark"] and is_item)):
                opened.append((name, number))
                num_open[name] += 1
    return partners


def without_outer(
    text: str, things: Sequence[Thing]
) -> tuple[str, str, str, Sequence[Thing]]:
    """Cuts the marks off a sentence, which no model need carry over.

    What opens something stays if it ends within the sentence, as "<b>" of
    "<b>Tom</b> came." does.

    Args:
        text: string, with a sign for each thing.
        things: list of `Thing`.

    Returns:
        What is before, the sentence, what is after it, and the things that are
        left in the sentence.
    """
    parts = _SIGN.split(text)
    first, last = 0, len(things)
    while (
        first < last and not things[first].is_word and not parts[first].strip()
    ):
        first += 1
    while (
        last > first
        and not things[last - 1].is_word
        and not parts[last].strip()
    ):
        last -= 1
    # What opens and what closes are around words that the model may move.
    partners = _partners(parts, things)
    inside = list(range(first, last))
    while inside:
        for number in partners.get(inside.pop(), ()):
            if number < first:
                inside += range(number, first)
                first = number
            elif number >= last:
                inside += range(last, number + 1)
                last = number + 1
    before = joined([*parts[:first], ""], things[:first]) if first else ""
    after = (
        joined(["", *parts[last + 1 :]], things[last:])
        if last < len(things)
        else ""
    )
    inner = parts[first : last + 1]
    signs = [*_SIGN.findall(text)[first:last], ""]
    start, end = inner[0], inner[-1]
    if first:
        blank = start[: len(start) - len(start.lstrip())]
        before += "" if things[first - 1].is_glued_after else blank
        inner[0] = start = start.lstrip()
    if last < len(things):
        end = inner[-1]
        blank = end[len(end.rstrip()) :]
        after = ("" if things[last].is_glued_before else blank) + after
        inner[-1] = end.rstrip()
    whole = "".join(part + sign for part, sign in zip(inner, signs))
    return before, whole, after, things[first:last]
