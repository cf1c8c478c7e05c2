"""Chooses among a teacher's translations: sequence-level interpolation."""

import dataclasses
import itertools
import pathlib
from collections.abc import Sequence

from relative_attention.decoding import Translation
from relative_attention.errors import InputError
from relative_attention.evaluation import sentence_scores


@dataclasses.dataclass(frozen=True)
class ClosestTo:
    """What decides which translations of a text are kept.

    Attributes:
        references: A string or path, the text that they shall be close to.
        num_candidates: An integer, how many of a line there are to choose
            from.
        tokenize: A string, sacreBLEU's name of the tokeniser.
    """

    references: pathlib.Path | str
    num_candidates: int
    tokenize: str


def check_closest_of(closest_of: int | None, num_beams: int) -> None:
    """Refuses a number of candidates that a search does not find.

    Args:
        closest_of: An integer, or `None` where none are asked for.
        num_beams: An integer, of the search.

    Raises:
        InputError: if it is no integer from 1 to `num_beams`.
    """
    if closest_of is None:
        return
    is_int = isinstance(closest_of, int) and not isinstance(closest_of, bool)
    if not is_int or not 1 <= closest_of <= num_beams:
        raise InputError(
            "`closest_of` must be an int from 1 to the number of beams, "
            f"{num_beams}, which `num_beams` raises. Received: {closest_of!r}."
        )


def closest_translations(
    candidates: Sequence[Sequence[Translation]],
    references: Sequence[str],
    tokenize: str,
) -> list[Translation]:
    """Returns of each line the translation that is closest to its reference.

    That is the one with the greatest sentence BLEU, of equal ones the first.
    A student then learns what a model would write, and yet what is near to the
    corpus.

    Args:
        candidates: A list, for each line, of lists of `Translation`, the most
            probable first.
        references: A list of strings, as many.
        tokenize: A string, sacreBLEU's name of the tokeniser.

    Reference:
     - [Kim and Rush, 2016](https://arxiv.org/abs/1606.07947), section 3.3
    """
    scores = iter(
        sentence_scores(
            [one.text for some in candidates for one in some],
            [line for some, line in zip(candidates, references) for _ in some],
            ["bleu"],
            tokenize=tokenize,
        )["bleu"]
    )
    chosen = []
    for some in candidates:
        theirs = list(itertools.islice(scores, len(some)))
        chosen.append(some[theirs.index(max(theirs))])
    return chosen
