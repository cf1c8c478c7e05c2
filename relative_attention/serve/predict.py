"""The body of a request, and the two forms of `:predict`.

Rows (`instances`) and columns (`inputs`) are those of TensorFlow Serving's REST
interface, for the signatures of the SavedModel that `export` writes.
"""

import json
import reprlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request

from relative_attention.decoding import Translation

# The one tensor that goes in.
_INPUT = "sentences"
_DEFAULT = "serving_default"
_N_BEST = "n_best"
# What stands where fewer translations were found, as in the SavedModel.
_MISSING = ("", -1e7)
# A body that is too long is read up to here and dropped. Closing the
# connection while the client still sends would lose the answer.
_MOST_READ = 2**30
HUNG_UP = 499


class PredictRequest(NamedTuple):
    """What a client asks for.

    Attributes:
        sentences: list of strings.
        is_n_best: bool. Whether to return as many translations as beams.
        is_in_rows: bool. Whether the answer has a row for each sentence, or
            two columns.
    """

    sentences: list[str]
    is_n_best: bool
    is_in_rows: bool


async def read_json_object(request: Request, max_bytes: int) -> dict[str, Any]:
    """Returns the JSON object that is the body of a request.

    Raises:
        HTTPException: 413 if it is too long, 400 if it is no JSON object.
    """
    body = await _read_body(request, max_bytes)
    try:
        # `json.loads` would take bytes in UTF-16, too.
        value = json.loads(body.decode())
    except (ValueError, RecursionError) as error:
        raise HTTPException(
            400, f"The body must be JSON in UTF-8: {error}."
        ) from error
    if not isinstance(value, dict):
        raise HTTPException(
            400, f"The body must be a JSON object. Received: {shown(value)}."
        )
    return value


async def _read_body(request: Request, max_bytes: int) -> bytes:
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size <= max_bytes:
                parts.append(part)
            elif size > _MOST_READ:
                break
    except ClientDisconnect as error:
        raise HTTPException(HUNG_UP, "The client hung up.") from error
    if size > max_bytes:
        raise HTTPException(
            413,
            f"The body must have at most {max_bytes} bytes.",
            {"Connection": "close"},
        )
    return b"".join(parts)


def read_predict(body: Mapping[str, Any], max_sentences: int) -> PredictRequest:
    """Reads the body of a `:predict` request.

    Raises:
        HTTPException: 400 if it has neither form, 413 if it has too many
            sentences.
    """
    signature = body.get("signature_name") or _DEFAULT
    if signature not in (_DEFAULT, _N_BEST):
        raise HTTPException(
            400,
            f"Serving signature name: {shown(signature)} not found in "
            f"signature def. There are {_DEFAULT} and {_N_BEST}.",
        )
    is_in_rows = "instances" in body
    if is_in_rows == ("inputs" in body):
        raise HTTPException(
            400,
            'The body must have either "instances" or "inputs". Received: '
            f"{'both' if is_in_rows else shown(sorted(body))}.",
        )
    name = "instances" if is_in_rows else "inputs"
    values = body[name]
    if not is_in_rows and isinstance(values, dict):
        values = _named(values, name)
    if not isinstance(values, list) or not values:
        raise HTTPException(
            400,
            f"`{name}` must have a list of at least one sentence. Received: "
            f"{shown(values)}.",
        )
    if len(values) > max_sentences:
        raise HTTPException(
            413,
            f"A request must have at most {max_sentences} sentences. "
            f"Received: {len(values)}.",
        )
    sentences = []
    for number, value in enumerate(values):
        place = f"{name}[{number}]"
        if is_in_rows and isinstance(value, dict):
            value = _named(value, place)
        sentences.append(checked_text(value, place))
    return PredictRequest(sentences, signature == _N_BEST, is_in_rows)


def _named(values: Mapping[str, Any], name: str) -> Any:
    """Returns the value of the one tensor that there is."""
    if set(values) != {_INPUT}:
        raise HTTPException(
            400,
            f"`{name}` must have one tensor, {_INPUT!r}. Received: "
            f"{shown(sorted(values))}.",
        )
    return values[_INPUT]


def checked_text(value: Any, name: str) -> str:
    """Returns a value, which must be a string that UTF-8 can write.

    Raises:
        HTTPException: 400 if it is anything else.
    """
    if not isinstance(value, str):
        raise HTTPException(
            400, f"`{name}` must be a string. Received: {shown(value)}."
        )
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise HTTPException(
            400, f"`{name}` must be text. Received: half a surrogate pair."
        ) from error
    return value


def write_predict(
    asked: PredictRequest,
    found: Sequence[Sequence[Translation]],
    num_beams: int,
) -> dict[str, Any]:
    """Returns the JSON object that answers a request.

    Args:
        asked: the request.
        found: the translations of each sentence, best first.
        num_beams: int. How many there are of each sentence, for `n_best`.
    """
    texts: list[Any] = []
    scores: list[Any] = []
    for results in found:
        pairs = [(result.text, result.score) for result in results]
        pairs += [_MISSING] * (num_beams - len(pairs))
        if asked.is_n_best:
            texts.append([text for text, _ in pairs])
            scores.append([score for _, score in pairs])
        else:
            texts.append(pairs[0][0])
            scores.append(pairs[0][1])
    if not asked.is_in_rows:
        return {"outputs": {"translations": texts, "scores": scores}}
    return {
        "predictions": [
            {"translations": text, "scores": score}
            for text, score in zip(texts, scores)
        ]
    }


def shown(value: Any) -> str:
    """Returns the beginning of a value, for a message."""
    return reprlib.repr(value)
