"""The queue of requests, and the one thread that runs them in batches."""

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import logging
import math
from collections.abc import AsyncIterator
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

from starlette.exceptions import HTTPException

from relative_attention.errors import InputError
from relative_attention.errors import NotFiniteError
from relative_attention.serve.metrics import Metrics
from relative_attention.text.prepared import Sentence

_LOG = logging.getLogger("relative_attention.serve")
# How long the model may wait for a larger batch, as a share of the time of the
# last one. Two batches of half the size take longer than one.
_PART_OF_BATCH = 0.1

# Takes the sentences of a batch and returns an answer to each. Sentences of
# several requests share a batch if their work is equal, such as a method of one
# model.
Work = Callable[[list[Sentence]], Sequence[Any]]


@dataclasses.dataclass(eq=False)
class _Item:
    """A waiting sentence; the one with the lowest turn is next."""

    request: object
    work: Work
    sentence: Sentence
    turn: int
    answer: "asyncio.Future[Any]"

    @property
    def length(self) -> int:
        return len(self.sentence.text)


class Batcher:
    """Runs waiting items, one batch at a time.

    Everything but the work itself happens in the event loop, so no locks are
    needed. If the model is idle, a request starts at once. After a batch the
    model waits for the clients that were answered to ask again: at most
    `max_wait_ms`, and at most a tenth of the time of that batch. Without this
    pause the first client to ask again would get a batch by itself, and all
    others would wait for it.

    A batch is the next item, and the items of the same work that are nearest to
    it in length. An item's turn is the number of items that were taken before
    its request came, plus its place in the request; the lowest turn is next. So
    one sentence does not wait for a request of a hundred, and a large request
    does not wait forever for others.

    Args:
        max_batch: int. Most items of a batch.
        max_wait_ms: float. Longest pause after a batch.
        queue: int. Most requests that wait.
        metrics: `Metrics` to keep up to date.
    """

    def __init__(
        self, max_batch: int, max_wait_ms: float, queue: int, metrics: Metrics
    ) -> None:
        self._max_batch = max_batch
        self._max_wait = max_wait_ms / 1000
        self._queue = queue
        self._metrics = metrics
        self._waiting: list[_Item] = []
        metrics.waiting.set_function(lambda: _count_requests(self._waiting))
        self._arrived = asyncio.Event()
        self._num_taken = 0
        # The last batch: when it ended, how long it took, and how many requests
        # wait if all answered clients ask again.
        self._end = 0.0
        self._seconds = 0.0
        self._expected = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Runs while the context lasts, then finishes what has begun."""
        with concurrent.futures.ThreadPoolExecutor(1, "translator") as thread:
            task = asyncio.create_task(self._work(thread))
            try:
                yield
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function in the thread, in its turn and in no batch."""
        (answer,) = await self.submit(
            lambda _: [function(*arguments)], [Sentence("")]
        )
        return answer

    async def submit(
        self, work: Work, sentences: Sequence[Sentence]
    ) -> list[Any]:
        """Waits for the answers to the sentences of one request.

        A cancelled caller leaves the queue.

        Raises:
            HTTPException: 429 if too many requests wait, 500 if the work
                fails.
            InputError: if the work raises it.
        """
        if _count_requests(self._waiting) >= self._queue:
            num_batches = math.ceil(len(self._waiting) / self._max_batch)
            seconds = max(1, math.ceil(num_batches * self._seconds))
            raise HTTPException(
                429,
                "Too many requests wait already. The limit is "
                f"{self._queue}. Try again later.",
                {"Retry-After": str(seconds)},
            )
        request = object()
        new_future = asyncio.get_running_loop().create_future
        items = [
            _Item(request, work, one, self._num_taken + number, new_future())
            for number, one in enumerate(sentences)
        ]
        answers = asyncio.gather(*(item.answer for item in items))
        self._waiting += items
        self._arrived.set()
        try:
            return await answers
        finally:
            self._waiting = [
                item for item in self._waiting if item.request is not request
            ]

    async def _work(self, thread: concurrent.futures.Executor) -> None:
        """Runs one batch after another, forever."""
        loop = asyncio.get_running_loop()
        while True:
            await self._wait()
            batch = self._take()
            start = loop.time()
            answers = await loop.run_in_executor(thread, _run, batch)
            self._end = loop.time()
            self._seconds = self._end - start
            self._expected = _count_requests([*self._waiting, *batch])
            self._metrics.batch_seconds.observe(self._seconds)
            self._metrics.batch_sentences.observe(len(batch))
            for item, answer in zip(batch, answers):
                # A future is done if its request was cancelled or has failed.
                if item.answer.done():
                    continue
                if isinstance(answer, Exception):
                    item.answer.set_exception(answer)
                else:
                    item.answer.set_result(answer)

    async def _wait(self) -> None:
        """Waits until there is a batch to run."""
        latest = self._end + min(self._max_wait, _PART_OF_BATCH * self._seconds)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(latest):
                while (
                    len(self._waiting) < self._max_batch
                    and _count_requests(self._waiting) < self._expected
                ):
                    await self._arrival()
        while not self._waiting:
            await self._arrival()

    async def _arrival(self) -> None:
        self._arrived.clear()
        await self._arrived.wait()

    def _take(self) -> list[_Item]:
        """Removes the next batch from the waiting items."""
        first = min(self._waiting, key=lambda item: item.turn)
        others = sorted(
            (i for i in self._waiting if i.work == first.work and i != first),
            key=lambda i: (abs(i.length - first.length), i.turn),
        )
        batch = [first, *others[: self._max_batch - 1]]
        self._num_taken += len(batch)
        taken = set(batch)
        self._waiting = [i for i in self._waiting if i not in taken]
        return batch


def _count_requests(items: Sequence[_Item]) -> int:
    return len({item.request for item in items})


def _run(batch: Sequence[_Item]) -> list[Any]:
    """Returns the answers of a batch, or exceptions instead.

    A batch that fails is tried again item by item, so that an item does not
    fail because of another one.
    """
    try:
        return list(batch[0].work([item.sentence for item in batch]))
    except Exception as error:
        if len(batch) > 1:
            return [answer for item in batch for answer in _run([item])]
        is_models_fault = isinstance(error, NotFiniteError)
        if isinstance(error, InputError) and not is_models_fault:
            return [error]
        _LOG.exception("The model failed.")
        return [HTTPException(500, "The model failed, see the server's log.")]
