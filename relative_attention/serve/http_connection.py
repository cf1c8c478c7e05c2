"""A connection of HTTP that does not wait for ever."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

# How long a client may take from connecting, or from the first byte of a
# further request, to the end of its headers.
HEADER_SECONDS = 10.0
# How long a client that is being answered may take in nothing.
WRITE_SECONDS = 30.0


class HttpConnection(H11Protocol):
    """Uvicorn's connection, closed when nothing more comes, or is taken.

    Uvicorn gives a limit to the time between two requests alone: who connects
    and says nothing, or a byte a minute, or who asks and never reads what is
    answered, would keep a connection for ever.
    """

    # Until headers are there; until some of what is written has been taken.
    _deadline: asyncio.TimerHandle | None = None
    _taking: asyncio.TimerHandle | None = None
    _num_unread = 0

    def connection_made(self, transport: Any) -> None:
        """Begins to wait for the first request."""
        super().connection_made(transport)
        # Any byte that the client does not take pauses writing, also that of
        # an answer after which the connection is closed.
        transport.set_write_buffer_limits(0)
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
        self._forget_taking()

    def pause_writing(self) -> None:
        """Begins to wait for the client to take what is written."""
        super().pause_writing()
        self._num_unread = self.transport.get_write_buffer_size()
        self._taking = self.loop.call_later(WRITE_SECONDS, self._check_taking)

    def resume_writing(self) -> None:
        """Goes on: the client has taken all."""
        super().resume_writing()
        self._forget_taking()

    def _check_taking(self) -> None:
        """Closes the connection if its client has taken nothing for long."""
        num_unread = self.transport.get_write_buffer_size()
        if num_unread >= self._num_unread:
            self.transport.abort()
            return
        self._num_unread = num_unread
        self._taking = self.loop.call_later(WRITE_SECONDS, self._check_taking)

    def _forget_taking(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None

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
