"""Clients that ask a server, many at a time, each one thing after another."""

import asyncio
import dataclasses
import json
import time
from collections.abc import Iterator
from collections.abc import Sequence

# No answer takes so long; what waits longer is broken.
_LIMIT = 300


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

    Each client has a connection of its own, and asks for the next sentence
    when it has got its answer.

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
    """Returns a request of HTTP."""
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
    """Asks for whatever nobody has asked for yet."""
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
