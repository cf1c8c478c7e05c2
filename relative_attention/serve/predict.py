"""The body of a request, and the two forms of `:predict`.

Rows (`instances`) and columns (`inputs`) are those of TensorFlow Serving's REST
interface, for the signatures of the SavedModel that `export` writes.
"""

import json
import re
import reprlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request

from relative_attention.decoding import Translation
from relative_attention.errors import InputError
from relative_attention.text.form import clean_text

# The only input tensor.
_INPUT = "sentences"
_DEFAULT = "serving_default"
_N_BEST = "n_best"
_OUTPUTS = ("translations", "scores")
# Terms of a request, and characters of a term or of what stands for it.
_MOST_TERMS = 100
_LONGEST_TERM = 100
_SURROGATE = re.compile("[\ud800-\udfff]")
# TensorFlow Serving's answers lack it.
_WAS_CUT = "was_cut"
# In place of missing translations, as in the SavedModel.
_MISSING = ("", -1e7)
# A body that is too long is read up to here and dropped. If the connection were
# closed while the client still sends, the answer would be lost.
_MOST_READ = 2**30
HUNG_UP = 499
# The beginning of a value, for a message.
_shown = reprlib.repr


class PredictRequest(NamedTuple):
    """A request of a client.

    Attributes:
        sentences: list of strings.
        is_n_best: bool. Whether to return as many translations as beams.
        is_in_rows: bool. Whether the answer has a row per sentence, or
            columns.
        split_sentences: bool, or `None` for the model's default.
        glossary: dict of terms of the source to what stands for them.
    """

    sentences: list[str]
    is_n_best: bool
    is_in_rows: bool
    split_sentences: bool | None
    glossary: dict[str, str]


async def read_json_body(request: Request, max_bytes: int) -> dict[str, Any]:
    """Returns the JSON object that is the body of a request.

    Raises:
        HTTPException: 413 if it is too long, 415 if it is compressed.
        InputError: if it is not a JSON object.
    """
    body = await _read_body(request, max_bytes)
    coding = request.headers.get("content-encoding", "identity")
    if coding.lower() != "identity":
        raise HTTPException(
            415,
            "The body must not be compressed. Received: a body with "
            f"`Content-Encoding: {coding[:80]}`.",
            {"Accept-Encoding": "identity"},
        )
    try:
        # `json.loads` would also accept UTF-16.
        value = json.loads(body.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"The body must be JSON in UTF-8: {error}.") from error
    if not isinstance(value, dict):
        raise InputError(
            f"The body must be a JSON object. Received: {_shown(value)}."
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
        HTTPException: 413 if it has too many sentences.
        InputError: if it has neither form.
    """
    signature = body.get("signature_name") or _DEFAULT
    if signature not in (_DEFAULT, _N_BEST):
        raise InputError(
            f"Serving signature name: {_shown(signature)} not found in "
            f"signature def. There are {_DEFAULT} and {_N_BEST}."
        )
    is_in_rows = "instances" in body
    if is_in_rows == ("inputs" in body):
        raise InputError(
            'The body must have either "instances" or "inputs". Received: '
            f"{'both' if is_in_rows else _shown(sorted(body))}."
        )
    name = "instances" if is_in_rows else "inputs"
    values = body[name]
    if is_in_rows and isinstance(values, list):
        values = [_without_name(value, name) for value in values]
    elif not is_in_rows:
        values = _without_name(values, name)
    sentences = checked_texts(values, name, max_sentences)
    is_n_best = signature == _N_BEST
    splits = body.get("split_sentences")
    if not isinstance(splits, bool | None) or (splits and is_n_best):
        raise InputError(
            "`split_sentences` must be true or false, and false for "
            f"{_N_BEST}. Received: {_shown(splits)} for {signature}."
        )
    glossary = _checked_glossary(body.get("glossary"))
    return PredictRequest(sentences, is_n_best, is_in_rows, splits, glossary)


def _checked_glossary(value: Any) -> dict[str, str]:
    """Returns the terms of a request."""
    if value is None:
        return {}
    if (
        isinstance(value, dict)
        and len(value) <= _MOST_TERMS
        and all(map(_is_term, (*value, *value.values())))
        and all(terms := [*map(clean_text, value)])
        # Of two translations of a term one would be ignored.
        and len({*terms}) == len(terms)
    ):
        return value
    raise InputError(
        f"`glossary` must be an object of at most {_MOST_TERMS} terms, none of "
        "them empty or there twice, to what stands for them: strings of at "
        f"most {_LONGEST_TERM} characters. Received: {_shown(value)}."
    )


def _is_term(value: Any) -> bool:
    return (
        isinstance(value, str)
        and len(value) <= _LONGEST_TERM
        and not _SURROGATE.search(value)
    )


def _without_name(value: Any, name: str) -> Any:
    """Returns the only tensor, with or without its name."""
    if not isinstance(value, dict):
        return value
    if set(value) != {_INPUT}:
        raise InputError(
            f"`{name}` must have one tensor, {_INPUT!r}. Received: "
            f"{_shown(sorted(value))}."
        )
    return value[_INPUT]


def checked_texts(values: Any, name: str, most: int) -> list[str]:
    """Returns values, which must be a list of texts.

    Raises:
        HTTPException: 413 if there are more than `most`.
        InputError: if they are anything else.
    """
    if not isinstance(values, list) or not values:
        raise InputError(
            f"`{name}` must have a list of at least one sentence. Received: "
            f"{_shown(values)}."
        )
    if len(values) > most:
        raise HTTPException(
            413,
            f"A request must have at most {most} sentences. "
            f"Received: {len(values)}.",
        )
    return [checked_text(text, f"{name}[{n}]") for n, text in enumerate(values)]


def checked_text(value: Any, name: str) -> str:
    """Returns a value, which must be a string that UTF-8 can write.

    Raises:
        InputError: if it is anything else.
    """
    if not isinstance(value, str):
        raise InputError(
            f"`{name}` must be a string. Received: {_shown(value)}."
        )
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"`{name}` must be text. Received: half a surrogate pair."
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
        num_beams: int. The number of translations per sentence, for `n_best`.
    """
    names = (*_OUTPUTS, _WAS_CUT)
    rows: list[tuple[Any, ...]] = []
    for results in found:
        pairs = [(result.text, result.score) for result in results]
        pairs += [_MISSING] * (num_beams - len(pairs))
        row = tuple(zip(*pairs)) if asked.is_n_best else pairs[0]
        rows.append((*row, results[0].was_cut))
    if asked.is_in_rows:
        return {"predictions": [dict(zip(names, row)) for row in rows]}
    return {"outputs": dict(zip(names, zip(*rows)))}
