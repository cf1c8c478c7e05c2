"""The line of requests, with work that a test lets go when it likes."""

import asyncio
import math
import threading

import pytest
from starlette.exceptions import HTTPException

from relative_attention.errors import InputError
from relative_attention.serve import batcher as batcher_module
from relative_attention.serve.batcher import Batcher
from relative_attention.serve.metrics import Metrics
from relative_attention.text.prepared import Sentence

# For tests that wait forever where something is broken.
LIMIT = 30
# So long that a test would fail if it were waited for.
VERY_LONG = 2000 * LIMIT


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

    def __call__(self, sentences):
        texts = [sentence.text for sentence in sentences]
        self.batches.append(texts)
        self.began.release()
        assert self._open.wait(LIMIT)
        if "bad" in texts:
            raise ValueError("no such word\nnowhere")
        if "wrong" in texts:
            raise InputError("wrong")
        return [text.upper() for text in texts]


def with_batcher(scenario, max_batch=8, max_wait_ms=0.0, queue=100):
    """Runs a scenario with a batcher that has started."""

    async def run():
        batcher = Batcher(max_batch, max_wait_ms, queue, Metrics())
        async with batcher.running(), asyncio.timeout(LIMIT):
            await scenario(batcher)

    asyncio.run(run())


def submit(batcher, work, texts):
    return batcher.submit(work, list(map(Sentence, texts)))


async def started(*coroutines):
    """Tasks of coroutines, which all have come to where they wait."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


async def begun_with(batcher, gate, item):
    """A task whose work has begun, so that what comes now waits in line."""
    (task,) = await started(submit(batcher, gate, [item]))
    await gate.begun()
    return task


def batches_of_a_line(requests, max_batch):
    """The batches in which requests are worked on that all wait together."""
    gate = Gate(is_open=False)

    async def scenario(batcher):
        busy = await begun_with(batcher, gate, "busy")
        tasks = await started(
            *(submit(batcher, gate, items) for items in requests)
        )
        gate.open()
        await asyncio.gather(busy, *tasks)

    with_batcher(scenario, max_batch)
    return gate.batches[1:]


def test_batch_has_sentences_of_similar_length():
    texts = ["aaaa", "b", "cccccc", "ddd", "eeeee", "ffffffffff"]
    batches = batches_of_a_line([[text] for text in texts], max_batch=3)
    assert set(batches[0]) == {"aaaa", "ddd", "eeeee"}
    # `b` came next, so it goes now, although others are nearer to each other.
    assert batches[1] == ["b", "cccccc", "ffffffffff"]


def test_short_and_long_requests_do_not_delay_each_other():
    requests = [["x"] * 100, *([f"y{number}"] for number in range(50))]
    batches = batches_of_a_line(requests, max_batch=4)
    others = [
        number
        for number, batch in enumerate(batches)
        if any(text.startswith("y") for text in batch)
    ]
    # The single ones are done in half of all batches ...
    assert max(others) < len(batches) / 2
    # ... and the first of the hundred in the first.
    assert "x" in batches[0]


def test_batch_has_work_of_one_kind():
    gate, other = Gate(is_open=False), Gate()

    async def scenario(batcher):
        busy = await begun_with(batcher, gate, "busy")
        tasks = await started(
            *(submit(batcher, (other, gate)[n % 2], [str(n)]) for n in range(6))
        )
        gate.open()
        await asyncio.gather(busy, *tasks)

    with_batcher(scenario)
    assert other.batches == [["0", "2", "4"]]
    assert gate.batches == [["busy"], ["1", "3", "5"]]


def test_failing_request_fails_alone(caplog):
    gate = Gate(is_open=False)

    async def scenario(batcher):
        busy = await begun_with(batcher, gate, "a")
        bad, good = await started(
            *(submit(batcher, gate, items) for items in (["b", "bad"], ["c"]))
        )
        gate.open()
        with pytest.raises(HTTPException, match="see the server's log"):
            await bad
        assert (await good, await busy) == (["C"], ["A"])
        # What is wrong with a request is no fault of the server.
        with pytest.raises(InputError):
            await submit(batcher, gate, ["wrong"])

    with_batcher(scenario)
    assert "no such word" in caplog.text


def test_batcher_waits_for_clients_answered_together(monkeypatch):
    """The first of them to ask again waits for the others."""
    monkeypatch.setattr(batcher_module, "_PART_OF_BATCH", math.inf)
    gate = Gate()

    async def scenario(batcher):
        first = await started(*(submit(batcher, gate, [i]) for i in "abc"))
        await asyncio.gather(*first)
        size = len(gate.batches)
        (one,) = await started(submit(batcher, gate, ["x"]))
        await asyncio.sleep(0.02)
        assert len(gate.batches) == size
        others = await started(*(submit(batcher, gate, [i]) for i in "yz"))
        await asyncio.gather(one, *others)
        assert sorted(gate.batches[-1]) == ["x", "y", "z"]

    with_batcher(scenario, max_wait_ms=VERY_LONG)


def test_batcher_does_not_wait_long_for_absent_clients():
    """No more than a part of the time of the batch before, which took none."""
    gate = Gate()

    async def scenario(batcher):
        first = await started(*(submit(batcher, gate, [i]) for i in "abc"))
        await asyncio.gather(*first)
        assert await submit(batcher, gate, ["x"]) == ["X"]

    with_batcher(scenario, max_wait_ms=VERY_LONG)
