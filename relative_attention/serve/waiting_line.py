"""The sentences that wait for the model, and which go next."""

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Hashable
from collections.abc import Sequence
from typing import Any
from typing import Protocol


class Work(Hashable, Protocol):
    """What is done to items; equal work is done to items of many requests."""

    def run(self, items: Sequence[Any], /) -> Sequence[Any]:
        """Returns what becomes of each item, in their order."""

    def length(self, item: Any, /) -> int:
        """Returns about how long an item is; those alike go together."""


@dataclasses.dataclass(eq=False)
class WaitingRequest:
    """A request, whose items may be worked on in several batches.

    Attributes:
        work: `Work` that is done to its items.
        answers: list of what became of each item so far.
        future: `asyncio.Future` of all answers.
        num_left: int. How many answers are missing.
    """

    work: Work
    answers: list[Any]
    future: "asyncio.Future[list[Any]]"
    num_left: int


@dataclasses.dataclass(eq=False)
class WaitingItem:
    """An item of a request that waits for its turn.

    Attributes:
        request: `WaitingRequest` that it is part of.
        index: int. Its place among the items of the request.
        item: what is worked on.
        length: int. See `Work`.
        turn: int. Who has the least goes next.
    """

    request: WaitingRequest
    index: int
    item: Any
    length: int
    turn: int


class WaitingLine:
    """Items in the order in which they will be worked on.

    The n-th item of a request has its turn when n items have been taken since
    the request came. A request of one sentence therefore does not wait until
    one of a hundred is done, and that one does not wait for ever, however many
    others come. A batch is whoever is next, and those of the same work whose
    length is nearest.
    """

    def __init__(self) -> None:
        self._items: list[WaitingItem] = []
        # How many items of each request wait.
        self._counts: Counter[WaitingRequest] = Counter()
        # How many items have been taken.
        self._num_taken = 0

    def __len__(self) -> int:
        return len(self._items)

    @property
    def num_requests(self) -> int:
        """How many requests have an item that waits."""
        return len(self._counts)

    def add(self, request: WaitingRequest, items: Sequence[Any]) -> None:
        """Puts the items of a request into the line."""
        self._items += [
            WaitingItem(
                request,
                index,
                item,
                request.work.length(item),
                self._num_taken + index,
            )
            for index, item in enumerate(items)
        ]
        self._counts[request] += len(items)

    def remove(self, request: WaitingRequest) -> None:
        """Takes out what is left of a request that nobody waits for."""
        if request not in self._counts:
            return
        del self._counts[request]
        self._items = [
            waiting for waiting in self._items if waiting.request is not request
        ]

    def take(self, max_batch: int) -> list[WaitingItem]:
        """Takes out the next batch, of one kind of work and of like length.

        Args:
            max_batch: int. Most items.

        Returns:
            List of `WaitingItem`; empty if none waits.
        """
        if not self._items:
            return []
        # Of equal turns the first in the list came first.
        first = min(self._items, key=lambda waiting: waiting.turn)
        alike = [
            waiting
            for waiting in self._items
            if waiting.request.work == first.request.work
        ]
        alike.sort(
            key=lambda waiting: (
                abs(waiting.length - first.length),
                waiting.turn,
            )
        )
        # Whoever is next goes, even if many of its length came before it.
        alike.remove(first)
        batch = [first, *alike[: max_batch - 1]]
        self._num_taken += len(batch)
        for waiting in batch:
            self._counts[waiting.request] -= 1
            if not self._counts[waiting.request]:
                del self._counts[waiting.request]
        taken = set(map(id, batch))
        self._items = [w for w in self._items if id(w) not in taken]
        return batch
