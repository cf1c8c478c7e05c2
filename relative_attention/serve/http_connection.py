"""A connection of HTTP that does not wait for ever."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

# How long a client may take from connecting, or from the first byte of a
# further request, to the end of its headers.
HEADER_SECONDS = 10.0


class HttpConnection(H11Protocol):
    """Uvicorn's connection, closed when headers do not come.

    Uvicorn gives a limit to the time between two requests alone: who connects
    and says nothing, or a byte a minute, would keep a connection for ever.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begins to wait for the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Reads what came."""
        try:
            super().data_received(data)
        except h11.LocalProtocolError:
            # Nonsense behind a request that is being answered.
            self.transport.abort()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends."""
        super().connection_lost(exc)
        self._forget()

    def _watch(self) -> None:
        """Sets a limit if no request is being read or answered, only then."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget()
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(HEADER_SECONDS, self._close)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close(self) -> None:
        """Closes the connection, whose client took too long."""
        self._deadline = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()
