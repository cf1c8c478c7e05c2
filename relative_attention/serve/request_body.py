"""Reads the body of a request, held to a size and a time."""

import asyncio
import json
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.requests import Request

from relative_attention.serve.request_error import RequestError
from relative_attention.serve.server_settings import ServerSettings

# What a message shows of a value that is wrong.
_MOST_SHOWN = 60


async def read_json_object(
    request: Request, settings: ServerSettings
) -> dict[str, Any]:
    """Returns the JSON object that is the body of a request.

    Raises:
        RequestError: 413 if it is too long, 408 if it comes too slowly, 400
            if it is no JSON object in UTF-8.
    """
    body = await _read(request, settings)
    try:
        # `json` would take UTF-16, too.
        value = json.loads(body.decode())
    except (ValueError, RecursionError) as error:
        reason = str(error) or type(error).__name__
        if isinstance(error, RecursionError):
            reason = "it is nested too deeply"
        raise RequestError(
            400, f"The body must be JSON in UTF-8: {reason}."
        ) from error
    if not isinstance(value, dict):
        raise RequestError(
            400, f"The body must be a JSON object. Received: {shown(value)}."
        )
    return value


async def _read(request: Request, settings: ServerSettings) -> bytes:
    """Returns the bytes of a body, once all are there."""
    too_long = RequestError(
        413,
        f"The body must have at most {settings.max_bytes} bytes.",
        # What is still on its way is not read.
        {"Connection": "close"},
    )
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > settings.max_bytes:
        raise too_long
    parts, size = [], 0
    try:
        async with asyncio.timeout(settings.read_seconds):
            async for part in request.stream():
                size += len(part)
                if size > settings.max_bytes:
                    raise too_long
                parts.append(part)
    except TimeoutError as error:
        raise RequestError(
            408,
            f"The body must be there within {settings.read_seconds:g} s.",
            {"Connection": "close"},
        ) from error
    except ClientDisconnect as error:
        # Nobody reads this answer.
        raise RequestError(400, "The client hung up.") from error
    return b"".join(parts)


def text_of(body: dict[str, Any], key: str) -> str:
    """Returns the string that is the value of a key.

    Raises:
        RequestError: 400 if it is missing, or anything else.
    """
    return checked_text(body.get(key), f"`{key}`")


def checked_text(value: Any, name: str) -> str:
    """Returns a value that must be a string which UTF-8 can write.

    Args:
        value: what a client sent.
        name: string. What it is called in the message.

    Raises:
        RequestError: 400 if it is anything else.
    """
    if not isinstance(value, str):
        raise RequestError(
            400, f"{name} must be a string. Received: {shown(value)}."
        )
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise RequestError(
            400, f"{name} must be text. Received: half a surrogate pair."
        ) from error
    return value


def shown(value: Any) -> str:
    """Returns a value as JSON, the beginning of it, for a message."""
    try:
        text = json.dumps(value)
    except RecursionError:
        text = type(value).__name__
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
