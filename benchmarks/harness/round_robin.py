"""Turns in rounds, so that what is compared was measured close together."""

from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Sequence
from typing import TypeVar

from benchmarks.harness.progress import show_progress

Name = TypeVar("Name", bound=Hashable)
Figures = TypeVar("Figures")


def round_robin(
    names: Sequence[Name],
    turn: Callable[[Name], Figures],
    rounds: int,
    warm_up_rounds: int = 1,
    title: str = "",
) -> dict[Name, list[Figures]]:
    """Lets each have its turn in every round, and keeps what is reported.

    A minute of a shared machine is not like the next, so ratios are taken
    between turns of the same round. Every second round goes backwards: a
    steady drift then favors nobody.

    Args:
        names: A sequence of what takes turns.
        turn: A function of a name that does the work of a turn and returns
            what it took.
        rounds: An integer, how many rounds count.
        warm_up_rounds: An integer, how many rounds come before and do not
            count, as the first call of a graph makes it. Defaults to `1`.
        title: A string that the progress line begins with.

    Returns:
        A dict of lists of what the turns returned, by name and in the order
        of the rounds.
    """
    figures: dict[Name, list[Figures]] = {name: [] for name in names}
    order = list(names)
    for number in range(warm_up_rounds + rounds):
        counts = number >= warm_up_rounds
        current = (
            f"round {number - warm_up_rounds + 1} of {rounds}"
            if counts
            else "warm-up"
        )
        for name in order:
            show_progress(f"{title}{current}: {name}")
            found = turn(name)
            if counts:
                figures[name].append(found)
        order.reverse()
    show_progress()
    return figures
