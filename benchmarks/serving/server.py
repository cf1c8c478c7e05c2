"""The server in a separate process, and its clients."""

import asyncio
import contextlib
import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.harness.engine import ROOT
from benchmarks.harness.engine import EngineError
from benchmarks.harness.engine import anonymous_memory

_MAIN = "import sys; from relative_attention.cli import main; sys.exit(main())"
# The name of the model there.
MODEL = "model"
# No answer takes so long; what waits longer is broken.
_LIMIT = 300


class ServerProcess(NamedTuple):
    """A server that listens.

    Attributes:
        process_id: An integer.
        port: An integer.
    """

    process_id: int
    port: int

    def memory(self) -> int:
        """Returns the bytes that belong to it alone."""
        return anonymous_memory(self.process_id)


@contextlib.contextmanager
def running_server(model: str, log: pathlib.Path) -> Iterator[ServerProcess]:
    """Starts a server as its users do; it does not outlive the context.

    Args:
        model: A string, the folder of a model or a name of the zoo.
        log: The path of a file that takes its error output.

    Raises:
        EngineError: If it does not start.
    """
    words = ["serve", f"{MODEL}={model}", "--port", "0"]
    with open(log, "w") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", _MAIN, *words],
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            cwd=ROOT,
        )
    try:
        found = None
        # Before it there is a line for each model that is loaded.
        for line in process.stdout or ():
            if found := re.search(r":(\d+)/", line):
                break
        if found is None:
            process.wait()
            raise EngineError(f"No server: {log.read_text()}")
        yield ServerProcess(process.pid, int(found[1]))
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()


@dataclasses.dataclass(frozen=True)
class Load:
    """What some clients were answered.

    Attributes:
        seconds: A float, from the first request to the last answer.
        latencies: A list of floats, the seconds of each request.
        translations: A list of strings.
    """

    seconds: float
    latencies: list[float]
    translations: list[str]


def ask_server(
    port: int, model: str, sentences: Sequence[str], num_clients: int
) -> Load:
    """Has clients ask for a translation of each sentence, one a request.

    Each client has its own connection, and sends the next sentence when
    the answer is there.

    Args:
        port: An integer, of a server of this machine.
        model: A string, the name of a model there.
        sentences: A list of strings.
        num_clients: An integer.
    """
    return asyncio.run(_ask(port, model, sentences, num_clients))


async def _ask(
    port: int, model: str, sentences: Sequence[str], num_clients: int
) -> Load:
    latencies = [0.0] * len(sentences)
    translations = [""] * len(sentences)
    places = iter(range(len(sentences)))
    requests = [_request(model, sentence) for sentence in sentences]
    start = time.perf_counter()
    async with asyncio.timeout(_LIMIT + len(sentences)):
        await asyncio.gather(
            *(
                _client(port, requests, places, latencies, translations)
                for _ in range(num_clients)
            )
        )
    return Load(time.perf_counter() - start, latencies, translations)


def _request(model: str, sentence: str) -> bytes:
    """Returns an HTTP request."""
    body = json.dumps({"inputs": [sentence]}).encode()
    head = (
        f"POST /v1/models/{model}:predict HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _client(
    port: int,
    requests: Sequence[bytes],
    places: Iterator[int],
    latencies: list[float],
    translations: list[str],
) -> None:
    """Asks for sentences that no other client has asked for."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for place in places:
            start = time.perf_counter()
            writer.write(requests[place])
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(_content_length(head))
            latencies[place] = time.perf_counter() - start
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(f"The server answered: {body!r}")
            (text,) = json.loads(body)["outputs"]["translations"]
            translations[place] = text
    finally:
        writer.close()


def _content_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    raise RuntimeError(f"The server did not say how long it answers: {head!r}")
