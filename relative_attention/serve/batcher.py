"""Gives what waits to the model, in batches, one at a time."""

import asyncio
import concurrent.futures
import contextlib
import logging
import math
from collections.abc import Sequence
from typing import Any

from relative_attention.serve.metrics import Metrics
from relative_attention.serve.request_error import RequestError
from relative_attention.serve.waiting_line import WaitingItem
from relative_attention.serve.waiting_line import WaitingLine
from relative_attention.serve.waiting_line import WaitingRequest
from relative_attention.serve.waiting_line import Work

_LOG = logging.getLogger("relative_attention.serve")
# The model rests at most this part of the time of the last batch, to get a
# larger one, as two batches of half the size take longer than one.
_PART_OF_BATCH = 0.1


class Batcher:
    """A line of requests, and a thread that works on them in batches.

    All of it but `Work.run` happens in the event loop, so that nothing needs
    a lock. A request that finds the model at rest starts at once. Right after
    a batch of several requests the model waits for as many to come, for
    `max_wait_ms` and a tenth of the time of that batch at most: their clients
    have just got their answers, and without it the first to ask again would
    have a batch of its own and all others would wait for it.

    Args:
        max_batch, max_wait_ms, queue: see `ServerSettings`.
        metrics: `Metrics` that are kept up to date.
    """

    def __init__(
        self, max_batch: int, max_wait_ms: float, queue: int, metrics: Metrics
    ) -> None:
        self._max_batch = max_batch
        self._max_wait = max_wait_ms / 1000
        self._queue = queue
        self._metrics = metrics
        self._line = WaitingLine()
        self._arrived = asyncio.Event()
        self._executor = concurrent.futures.ThreadPoolExecutor(1, "translator")
        self._task: asyncio.Task[None] | None = None
        # The last batch: when it ended, how long it took, of how many requests.
        self._last_end = 0.0
        self._last_seconds = 0.0
        self._last_requests = 0

    def start(self) -> None:
        """Begins to work, in the event loop that runs."""
        self._task = asyncio.get_running_loop().create_task(self._work())

    async def stop(self) -> None:
        """Ends; what is being worked on is finished first."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self._executor.shutdown()

    async def submit(self, work: Work, items: Sequence[Any]) -> list[Any]:
        """Waits for the answers to the items of one request.

        Whoever cancels it leaves the line.

        Args:
            work: `Work` to be done.
            items: list of items, at least one.

        Raises:
            RequestError: 429 if too many requests wait, 500 if the work
                fails.
        """
        if self._line.num_requests >= self._queue:
            self._metrics.refused.inc()
            raise RequestError(
                429,
                f"{self._queue} requests wait already. Try again later.",
                {"Retry-After": str(self._seconds_to_wait())},
            )
        future = asyncio.get_running_loop().create_future()
        request = WaitingRequest(work, [None] * len(items), future, len(items))
        self._line.add(request, items)
        self._note_line()
        self._arrived.set()
        try:
            return await future
        except asyncio.CancelledError:
            self._metrics.hung_up.inc()
            raise
        finally:
            self._line.remove(request)
            self._note_line()

    async def _work(self) -> None:
        """Works on one batch after another, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            await self._next_arrival()
            await self._wait_for_others()
            batch = self._line.take(self._max_batch)
            self._note_line()
            if not batch:
                continue
            start = loop.time()
            answers = await loop.run_in_executor(self._executor, _run, batch)
            self._last_end = loop.time()
            self._last_seconds = self._last_end - start
            self._last_requests = len({id(w.request) for w in batch})
            self._metrics.batch_seconds.observe(self._last_seconds)
            self._metrics.batch_sentences.observe(len(batch))
            for waiting, answer in zip(batch, answers):
                _give(waiting, answer)

    async def _next_arrival(self) -> None:
        """Waits until the line is not empty."""
        while not len(self._line):
            self._arrived.clear()
            await self._arrived.wait()

    async def _wait_for_others(self) -> None:
        """Waits for as many requests as were answered just now."""
        end = self._last_end + min(
            self._max_wait, _PART_OF_BATCH * self._last_seconds
        )
        while (
            0 < self._line.num_requests < self._last_requests
            and len(self._line) < self._max_batch
        ):
            left = end - asyncio.get_running_loop().time()
            if left <= 0:
                return
            self._arrived.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._arrived.wait(), left)

    def _seconds_to_wait(self) -> int:
        """Returns in about how many seconds the line will be done."""
        num_batches = math.ceil(len(self._line) / self._max_batch)
        return max(1, math.ceil(num_batches * self._last_seconds))

    def _note_line(self) -> None:
        self._metrics.waiting.set(self._line.num_requests)


def _run(batch: Sequence[WaitingItem]) -> list[Any]:
    """Works on a batch, in the thread of the translator.

    Where it fails, each request is tried alone: what is wrong with one does
    not concern the others.

    Returns:
        List of answers, or of the `Exception` in place of one.
    """
    try:
        work = batch[0].request.work
        return list(work.run([waiting.item for waiting in batch]))
    except Exception as error:
        requests = {id(w.request): w.request for w in batch}
        if len(requests) == 1:
            if not isinstance(error, RequestError):
                _LOG.exception("A batch of %d failed.", len(batch))
            return [error] * len(batch)
    answers: dict[int, Any] = {}
    for request in requests.values():
        own = [waiting for waiting in batch if waiting.request is request]
        answers |= {id(w): answer for w, answer in zip(own, _run(own))}
    return [answers[id(waiting)] for waiting in batch]


def _give(waiting: WaitingItem, answer: Any) -> None:
    """Gives an answer to the request of an item, if somebody still waits."""
    request = waiting.request
    if request.future.done():
        return
    if isinstance(answer, RequestError):
        request.future.set_exception(answer)
        return
    if isinstance(answer, Exception):
        error = RequestError(500, "The model failed, see the server's log.")
        request.future.set_exception(error)
        return
    request.answers[waiting.index] = answer
    request.num_left -= 1
    if not request.num_left:
        request.future.set_result(request.answers)
