"""Runs a server until it is told to stop."""

import contextlib
import ipaddress
import logging
import pathlib
import signal
import socket
from collections.abc import Callable
from collections.abc import Mapping

import uvicorn

from relative_attention.errors import InputError
from relative_attention.serve.app import make_app
from relative_attention.serve.http_connection import HttpConnection
from relative_attention.serve.served_models import load_models
from relative_attention.serve.server_settings import ServerSettings

# How long a server that was told to stop may take to finish what it has.
_FINISH_SECONDS = 120
# Connections beyond the requests that may wait: of idle clients, of pages.
_MORE_CONNECTIONS = 256
# Bytes of the headers of a request.
_MOST_HEADER_BYTES = 2**14


def run_server(
    folders: Mapping[str, pathlib.Path],
    host: str,
    port: int,
    settings: ServerSettings,
    report: Callable[[str], object] = print,
) -> None:
    """Serves models until SIGINT or SIGTERM, then finishes what it has.

    Args:
        folders: dict of names to folders of models.
        host: string, the address to listen on.
        port: int; `0` takes any that is free.
        settings: `ServerSettings`.
        report: called with a line for each model that is loaded, and with
            one when the server is ready.

    Raises:
        InputError: if a model cannot be loaded, or the address is not free.
    """
    # It warns of many graphs where there are many models.
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    # What is not free is said before models are loaded for a minute; nobody
    # is let in before they are.
    with contextlib.closing(_bound_socket(host, port)) as listening:
        models = load_models(folders, report)
        app = make_app(models, settings)
        config = uvicorn.Config(
            app,
            http=HttpConnection,
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_level="warning",
            access_log=False,
            server_header=False,
            # Whoever stands between says nothing that is believed.
            proxy_headers=False,
            limit_concurrency=2 * settings.queue + _MORE_CONNECTIONS,
            timeout_graceful_shutdown=_FINISH_SECONDS,
            h11_max_incomplete_event_size=_MOST_HEADER_BYTES,
        )
        shown = f"[{host}]" if ":" in host else host
        port = listening.getsockname()[1]
        server = _ReportingServer(
            config,
            lambda: report(
                f"Serving {', '.join(models)} at http://{shown}:{port}/"
            ),
        )
        # Uvicorn raises the signal that ended it once more.
        before = signal.signal(signal.SIGTERM, lambda *_: None)
        try:
            server.run(sockets=[listening])
        finally:
            signal.signal(signal.SIGTERM, before)


class _ReportingServer(uvicorn.Server):
    """Says when it listens."""

    def __init__(
        self, config: uvicorn.Config, report: Callable[[], object]
    ) -> None:
        super().__init__(config)
        self._report = report

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to listen."""
        await super().startup(sockets)
        if self.started:
            self._report()


def is_loopback(host: str) -> bool:
    """Returns whether an address can be reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bound_socket(host: str, port: int) -> socket.socket:
    """Returns a socket that has an address and does not listen yet."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
    except (OSError, OverflowError, UnicodeError) as error:
        raise InputError(
            f"--host must be an address of this machine. Received: {host!r} "
            f"({error})."
        ) from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except (OSError, OverflowError) as error:
        bound.close()
        raise InputError(
            f"Nothing can listen at {host}, port {port}: {error}. Choose "
            "another with --host and --port."
        ) from error
    return bound
