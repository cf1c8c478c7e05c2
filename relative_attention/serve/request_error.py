"""An error that a client is told in one line."""

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.responses import Response


class RequestError(Exception):
    """Raised when a request cannot be answered.

    Args:
        status: int. The status of HTTP.
        message: string. One line that says what is wrong.
        headers: mapping of further headers. Defaults to none.
    """

    def __init__(
        self, status: int, message: str, headers: Mapping[str, str] = {}
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = dict(headers)


def error_response(
    status: int, message: str, headers: Mapping[str, str] = {}
) -> Response:
    """Returns an error in the form of TensorFlow Serving."""
    return JSONResponse({"error": message}, status, dict(headers))


async def answer_request_error(request: Request, error: Exception) -> Response:
    """Answers a `RequestError`; an exception handler of Starlette."""
    if not isinstance(error, RequestError):
        raise error
    return error_response(error.status, error.message, error.headers)
