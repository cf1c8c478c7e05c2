"""Clients of servers in this process, and of those in another."""

import asyncio
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import urllib.request

from relative_attention.serve import ServerSettings
from relative_attention.serve import make_app

ROOT = pathlib.Path(__file__).parents[2]
MAIN = "import sys; from relative_attention.cli import main; sys.exit(main())"
LIMIT = 120


@contextlib.contextmanager
def client_of(models, **settings):
    """Starlette's client of a server of its own."""
    from starlette.testclient import TestClient

    app = make_app(models, ServerSettings(**settings))
    with TestClient(app, base_url="http://localhost") as client:
        yield client


def with_async_client(models, scenario, **settings):
    """Runs `scenario(client)` with a server of its own."""
    import httpx2

    async def run():
        app = make_app(models, ServerSettings(**settings))
        transport = httpx2.ASGITransport(app)
        async with (
            asyncio.timeout(10 * LIMIT),
            app.router.lifespan_context(app),
            httpx2.AsyncClient(
                transport=transport,
                base_url="http://localhost",
                timeout=10 * LIMIT,
            ) as client,
        ):
            return await scenario(client)

    return asyncio.run(run())


class ServerProcess:
    """`relative-attention serve` in a process of its own.

    Attributes:
        url: string, where it listens.
        process: `subprocess.Popen`.
    """

    def __init__(self, *arguments):
        words = [str(argument) for argument in arguments]
        if "--port" not in words:
            words += ["--port", "0"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", MAIN, "serve", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        line = self.process.stdout.readline()
        while line.startswith("Loading "):
            line = self.process.stdout.readline()
        found = re.search(r"http://\S+:(\d+)/", line)
        if found is None:
            _, error = self.process.communicate()
            raise AssertionError(f"no server: {line}{error}")
        self.port = int(found[1])
        self.url = found[0]

    def ask(self, path, body=None, headers=()):
        """The JSON that is answered."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, dict(headers))
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)

    def stop(self, number=signal.SIGTERM):
        """Sends a signal; returns exit status and error output."""
        self.process.send_signal(number)
        _, error = self.process.communicate(timeout=LIMIT)
        return self.process.returncode, error


@contextlib.contextmanager
def server_process(*arguments):
    """A server process that does not outlive the context."""
    server = ServerProcess(*arguments)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
        server.process.communicate()
