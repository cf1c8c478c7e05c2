"""An error that a client is told in one line."""

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.responses import Response

_MOST_CHARACTERS = 500


class RequestError(Exception):
    """Raised when a request cannot be answered.

    Args:
        status: int. The status of HTTP.
        message: string. What is wrong; it is told in one line, cut at 500
            characters.
        headers: mapping of further headers. Defaults to none.
    """

    def __init__(
        self, status: int, message: str, headers: Mapping[str, str] = {}
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = _one_line(message)
        self.headers = dict(headers)


def error_response(
    status: int, message: str, headers: Mapping[str, str] = {}
) -> Response:
    """Returns an error in the form of TensorFlow Serving."""
    return JSONResponse({"error": _one_line(message)}, status, dict(headers))


def _one_line(text: str) -> str:
    """Returns text that a client may have put line ends into as one line."""
    return " ".join(text.split())[:_MOST_CHARACTERS]


async def answer_request_error(request: Request, error: Exception) -> Response:
    """Answers a `RequestError`; an exception handler of Starlette."""
    if not isinstance(error, RequestError):
        raise error
    return error_response(error.status, error.message, error.headers)
