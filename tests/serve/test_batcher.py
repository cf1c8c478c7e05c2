"""The line of requests, with work that a test lets go on when it likes."""

import asyncio
import math
import threading

import pytest

from relative_attention.serve import batcher as batcher_module
from relative_attention.serve.batcher import Batcher
from relative_attention.serve.metrics import Metrics
from relative_attention.serve.request_error import RequestError

# For whoever waits for ever where something is broken.
LIMIT = 30


class Gate:
    """Work that ends when it is told to, and keeps its batches."""

    def __init__(self, is_open=True):
        self.batches = []
        self.began = threading.Semaphore(0)
        self._open = threading.Event()
        if is_open:
            self.open()

    def open(self):
        self._open.set()

    async def begun(self):
        """Waits until a batch is being worked on."""
        assert await asyncio.to_thread(self.began.acquire, timeout=LIMIT)

    def run(self, items):
        self.batches.append(list(items))
        self.began.release()
        assert self._open.wait(LIMIT)
        if "bad" in items:
            raise ValueError("no such word\nnowhere")
        return [item.upper() for item in items]

    def length(self, item):
        return len(item)


def with_batcher(scenario, max_batch=8, max_wait_ms=0.0, queue=100):
    """Runs a scenario with a batcher that has started; returns its metrics."""
    metrics = Metrics()

    async def run():
        batcher = Batcher(max_batch, max_wait_ms, queue, metrics)
        batcher.start()
        try:
            async with asyncio.timeout(LIMIT):
                await scenario(batcher)
        finally:
            await batcher.stop()

    asyncio.run(run())
    return metrics


async def started(*coroutines):
    """Tasks of coroutines, which all have come to where they wait."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


def value(metrics, name):
    lines = metrics.text().decode().splitlines()
    (line,) = [line for line in lines if line.startswith(f"{name} ")]
    return float(line.split()[1])


def test_each_gets_its_own_answers():
    gate = Gate()

    async def scenario(batcher):
        asked = [[f"a{i}", f"b{i}"][: 1 + i % 2] for i in range(50)]
        answers = await asyncio.gather(
            *(batcher.submit(gate, items) for items in asked)
        )
        assert answers == [[item.upper() for item in items] for items in asked]

    metrics = with_batcher(scenario)
    assert max(map(len, gate.batches)) == 8
    assert value(metrics, "translator_waiting_requests") == 0


def test_what_waits_while_the_model_works_goes_together():
    gate = Gate(is_open=False)

    async def scenario(batcher):
        (first,) = await started(batcher.submit(gate, ["a"]))
        # At rest, so the first started at once, and alone.
        await gate.begun()
        others = await started(
            *(batcher.submit(gate, [item]) for item in "bcde")
        )
        gate.open()
        await asyncio.gather(first, *others)

    with_batcher(scenario)
    assert gate.batches[0] == ["a"]
    assert sorted(gate.batches[1]) == list("bcde")


def test_full_line_is_refused_with_a_time_to_come_again():
    gate = Gate(is_open=False)

    async def scenario(batcher):
        (busy,) = await started(batcher.submit(gate, ["a"]))
        await gate.begun()
        waiting = await started(
            *(batcher.submit(gate, [item]) for item in "bcd")
        )
        with pytest.raises(RequestError, match="3 requests wait") as raised:
            await batcher.submit(gate, ["e"])
        assert raised.value.status == 429
        assert int(raised.value.headers["Retry-After"]) >= 1
        gate.open()
        await asyncio.gather(busy, *waiting)
        assert await batcher.submit(gate, ["e"]) == ["E"]

    metrics = with_batcher(scenario, queue=3)
    assert value(metrics, "translator_refused_requests_total") == 1


def test_who_hangs_up_frees_the_place():
    gate = Gate(is_open=False)

    async def scenario(batcher):
        (busy,) = await started(batcher.submit(gate, ["a"]))
        await gate.begun()
        waiting = await started(
            *(batcher.submit(gate, [item]) for item in ("gone", "b"))
        )
        waiting[0].cancel()
        # There is one place again, and no more.
        waiting += await started(batcher.submit(gate, ["c"]))
        with pytest.raises(RequestError):
            await batcher.submit(gate, ["d"])
        # Who leaves in the middle of the work is no harm to it, either.
        busy.cancel()
        gate.open()
        await asyncio.gather(*waiting, busy, return_exceptions=True)
        assert [task.result() for task in waiting[1:]] == [["B"], ["C"]]

    metrics = with_batcher(scenario, queue=2)
    assert gate.batches == [["a"], ["b", "c"]]
    assert value(metrics, "translator_hung_up_requests_total") == 2


def test_one_bad_request_fails_alone():
    gate = Gate(is_open=False)

    async def scenario(batcher):
        (busy,) = await started(batcher.submit(gate, ["a"]))
        await gate.begun()
        tasks = await started(
            *(batcher.submit(gate, items) for items in (["b", "bad"], ["c"]))
        )
        gate.open()
        with pytest.raises(RequestError) as raised:
            await tasks[0]
        assert raised.value.status == 500
        assert raised.value.message == "The model failed, see the server's log."
        assert await tasks[1] == ["C"]
        await busy

    with_batcher(scenario)


def test_clients_that_were_answered_together_come_again_together(monkeypatch):
    """The first of them to ask again waits for the others."""
    monkeypatch.setattr(batcher_module, "_PART_OF_BATCH", math.inf)
    gate = Gate()

    async def scenario(batcher):
        first = await started(*(batcher.submit(gate, [i]) for i in "abc"))
        await asyncio.gather(*first)
        size = len(gate.batches)
        (one,) = await started(batcher.submit(gate, ["x"]))
        await asyncio.sleep(0.02)
        assert len(gate.batches) == size
        others = await started(*(batcher.submit(gate, [i]) for i in "yz"))
        await asyncio.gather(one, *others)
        assert sorted(gate.batches[-1]) == ["x", "y", "z"]

    # So long that the test would fail if it were waited for.
    with_batcher(scenario, max_wait_ms=1000 * LIMIT * 2)


def test_who_does_not_come_again_is_not_waited_for_long():
    """No more than a part of the time of the batch before, which took none."""
    gate = Gate()

    async def scenario(batcher):
        first = await started(*(batcher.submit(gate, [i]) for i in "abc"))
        await asyncio.gather(*first)
        assert await batcher.submit(gate, ["x"]) == ["X"]

    with_batcher(scenario, max_wait_ms=1000 * LIMIT * 2)


def test_one_client_never_waits_for_others(monkeypatch):
    monkeypatch.setattr(batcher_module, "_PART_OF_BATCH", math.inf)
    gate = Gate()

    async def scenario(batcher):
        for item in "abc":
            assert await batcher.submit(gate, [item]) == [item.upper()]

    with_batcher(scenario, max_wait_ms=1000 * LIMIT * 2)


def test_what_has_begun_is_finished_at_the_end():
    gate = Gate(is_open=False)

    async def scenario(batcher):
        await started(batcher.submit(gate, ["a"]))
        await gate.begun()
        gate.open()

    with_batcher(scenario)
    assert gate.batches == [["a"]]
