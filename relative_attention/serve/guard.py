"""Lets in who may, and keeps pages from being framed or scripted by others."""

import hmac
import ipaddress
import re
import time

from starlette.datastructures import Headers
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp
from starlette.types import Message
from starlette.types import Receive
from starlette.types import Scope
from starlette.types import Send

from relative_attention.serve.metrics import Metrics
from relative_attention.serve.request_error import error_response

PROTECTING_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; "
        "img-src 'self'; connect-src 'self'; frame-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# What needs no token: the page, without which none could be typed in, what
# only who was told its name can ask for, and what says that the server lives.
_OPEN = re.compile(r"/|/page/[\w.]+|/views/[\w-]+|/healthz")
# How a path is counted; there are few kinds, whatever clients ask for.
_KINDS = (
    ("predict", re.compile(r"/v1/models/[^/].*:predict")),
    ("metadata", re.compile(r"/v1/models/[^/].*/metadata")),
    ("status", re.compile(r"/v1/models/[^/].*")),
    ("api", re.compile(r"/api/.*")),
    ("page", re.compile(r"/|/page/.*|/views/.*")),
    ("healthz", re.compile("/healthz")),
    ("metrics", re.compile("/metrics")),
)


class Guard:
    """Stands before an application of ASGI.

    It asks for the token, refuses what comes from pages of others, adds
    headers to all answers, and counts them.

    Args:
        app: the application.
        token: string, or `None`; see `ServerSettings`.
        checks_host: bool; see `ServerSettings`.
        metrics: `Metrics` that requests are counted in.
    """

    def __init__(
        self,
        app: ASGIApp,
        token: str | None,
        checks_host: bool,
        metrics: Metrics,
    ) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        # Such a page does not know the token.
        self._checks_host = checks_host and token is None
        self._metrics = metrics

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answers a request, itself or through the application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        kind = _kind(scope["path"])
        status = 500

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in PROTECTING_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope["path"], Headers(scope=scope))
        try:
            await (refusal or self._app)(scope, receive, send_guarded)
        finally:
            self._metrics.requests.labels(kind, status).inc()
            self._metrics.request_seconds.labels(kind).observe(
                time.perf_counter() - start
            )

    def _refusal(self, path: str, headers: Headers) -> ASGIApp | None:
        """Returns the answer to who may not come in, or `None`."""
        host = headers.get("host", "")
        if self._checks_host and host and not _is_address(host):
            return error_response(
                403,
                "Without a token this server is to be called by an address, "
                f"or as localhost. Received: {host[:80]!r}.",
            )
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return error_response(
                403,
                "Pages of other servers may not ask here. Received: a request "
                f"from {origin[:80]!r}.",
            )
        if self._token is None or _OPEN.fullmatch(path):
            return None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        # Of bytes, as text that is not ASCII cannot be compared; and in a time
        # that does not tell how much of it was right.
        is_token = hmac.compare_digest(
            given.strip().encode("utf-8", "replace"), self._token
        )
        if scheme.lower() == "bearer" and is_token:
            return None
        return error_response(
            401,
            "This server asks for its token, in a header `Authorization: "
            "Bearer TOKEN`.",
            {"WWW-Authenticate": "Bearer"},
        )


def _kind(path: str) -> str:
    """Returns how a path is counted."""
    for kind, pattern in _KINDS:
        if pattern.fullmatch(path):
            return kind
    return "other"


def _is_address(host: str) -> bool:
    """Returns whether a `Host` is `localhost` or an address.

    A name may be made to point here by whoever owns it, so that the page of
    that name could read answers (DNS rebinding).
    """
    name = re.sub(r":\d*$", "", host).strip("[]").lower()
    if name == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
