"""The application that a server runs."""

import contextlib
from collections.abc import AsyncIterator

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.responses import Response
from starlette.routing import Route

from relative_attention.serve.guard import PROTECTING_HEADERS
from relative_attention.serve.guard import Guard
from relative_attention.serve.page_api import PAGE_ROUTES
from relative_attention.serve.request_error import RequestError
from relative_attention.serve.request_error import answer_request_error
from relative_attention.serve.request_error import error_response
from relative_attention.serve.rest_api import REST_ROUTES
from relative_attention.serve.served_models import ServedModels
from relative_attention.serve.server import Server
from relative_attention.serve.server import server_of
from relative_attention.serve.server_settings import ServerSettings


def make_app(
    models: ServedModels, settings: ServerSettings | None = None
) -> Starlette:
    """Makes an application of ASGI that serves models.

    Args:
        models: dict of `ServedModel` by name, see `load_models`.
        settings: `ServerSettings`. Defaults to `None`, the usual ones.

    Returns:
        `Starlette`, for any server of ASGI with one process; it works while
        its lifespan lasts, once.
    """
    settings = settings or ServerSettings()
    server = Server(models, settings)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        watching = await server.start()
        try:
            yield
        finally:
            await server.stop(watching)

    app = Starlette(
        routes=[
            *REST_ROUTES,
            *PAGE_ROUTES,
            Route("/healthz", _healthz),
            Route("/metrics", _metrics),
        ],
        middleware=[
            Middleware(
                Guard,
                token=settings.token,
                checks_host=settings.checks_host,
                metrics=server.metrics,
            )
        ],
        exception_handlers={
            RequestError: answer_request_error,
            HTTPException: _answer_http_exception,
            Exception: _answer_failure,
        },
        lifespan=lifespan,
    )
    # A path with a slash too many is none of the interface.
    app.router.redirect_slashes = False
    app.state.server = server
    return app


async def _healthz(request: Request) -> Response:
    """Answers that the server lives."""
    return JSONResponse({"status": "ok"})


async def _metrics(request: Request) -> Response:
    """Answers with all counters."""
    text = server_of(request).metrics.text()
    return Response(text, media_type=CONTENT_TYPE_LATEST)


async def _answer_http_exception(
    request: Request, error: Exception
) -> Response:
    """Answers what Starlette refuses: unknown paths and methods."""
    if not isinstance(error, HTTPException):
        raise error
    what = f"{request.method} {request.scope['path'][:200]}"
    return error_response(
        error.status_code, f"{error.detail}: {what}", error.headers or {}
    )


async def _answer_failure(request: Request, error: Exception) -> Response:
    """Answers what nobody foresaw; the server's log has the traceback."""
    # Starlette calls it from outside of `Guard`.
    return error_response(
        500, "The server failed, see its log.", PROTECTING_HEADERS
    )
