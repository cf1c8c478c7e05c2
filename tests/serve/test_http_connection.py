"""A connection whose client does not read what it is answered."""

import asyncio
from types import SimpleNamespace

import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl

from relative_attention.serve import http_connection
from relative_attention.serve.http_connection import HttpConnection

LIMIT = 60


async def large_answer(scope, receive, send):
    """An application that answers more than buffers of the system hold."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(32):
        body = {"type": "http.response.body", "body": bytes(2**20)}
        await send(body | {"more_body": True})
    await send({"type": "http.response.body", "body": b""})


def with_server(scenario):
    """Runs `scenario(port, connections)` beside a server."""

    async def run():
        config = uvicorn.Config(
            large_answer,
            port=0,
            http=HttpConnection,
            lifespan="off",
            log_level="error",
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        async with asyncio.timeout(LIMIT):
            await scenario(port, server.server_state)
        server.should_exit = True
        await serving

    asyncio.run(run())


async def ask(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return reader, writer


def test_client_that_reads_nothing_is_let_go(monkeypatch):
    monkeypatch.setattr(http_connection, "WRITE_SECONDS", 0.05)

    async def scenario(port, state):
        _, writer = await ask(port)
        while not state.connections:
            await asyncio.sleep(0.01)
        while state.connections or state.tasks:
            await asyncio.sleep(0.01)
        writer.close()

    with_server(scenario)


class Clock:
    """The part of an event loop that tells when time is over."""

    def __init__(self):
        self.over = []

    def call_later(self, seconds, call):
        self.over.append(call)
        return asyncio.TimerHandle(0, call, (), self)

    def get_debug(self):
        return False

    def _timer_handle_cancelled(self, handle):
        self.over.clear()


def test_client_that_reads_slowly_is_waited_for():
    sizes, aborted = iter([1000, 600, 1, 1]), []
    config = uvicorn.Config(large_answer, http=HttpConnection, lifespan="off")
    clock = Clock()
    connection = HttpConnection(
        config, uvicorn.server.ServerState(), {}, _loop=clock
    )
    connection.flow = FlowControl(None)
    connection.transport = SimpleNamespace(
        get_write_buffer_size=lambda: next(sizes),
        abort=lambda: aborted.append(True),
    )
    connection.pause_writing()
    for _ in range(2):
        clock.over.pop()()
        assert not aborted
    clock.over.pop()()
    assert aborted and not clock.over
