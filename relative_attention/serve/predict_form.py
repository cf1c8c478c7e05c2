"""Requests and answers of `:predict`, in the forms of TensorFlow Serving."""

import base64
import binascii
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from relative_attention.decoding import Translation
from relative_attention.serve.request_body import checked_text
from relative_attention.serve.request_body import shown
from relative_attention.serve.request_error import RequestError
from relative_attention.serve.signatures import DEFAULT
from relative_attention.serve.signatures import INPUT
from relative_attention.serve.signatures import N_BEST
from relative_attention.serve.signatures import SIGNATURES

# What stands where fewer translations were found, as in the SavedModel.
_MISSING = ("", -1e7)
_KEYS = ("signature_name", "instances", "inputs")


class PredictRequest(NamedTuple):
    """What a client asks for.

    Attributes:
        sentences: list of strings.
        signature: string, one of `SIGNATURES`.
        is_in_rows: bool. Whether each sentence is an instance, and so each
            answer an object; else all of them are one column.
    """

    sentences: list[str]
    signature: str
    is_in_rows: bool


def read_request(body: Mapping[str, Any], max_sentences: int) -> PredictRequest:
    """Reads the JSON object of a request.

    Args:
        body: the JSON object.
        max_sentences: int. Most sentences.

    Raises:
        RequestError: 400 if it is none of the documented forms, 413 if there
            are too many sentences.
    """
    signature = body.get("signature_name", "") or DEFAULT
    if signature not in SIGNATURES:
        raise RequestError(
            400,
            f"Serving signature name: {shown(signature)} not found in "
            f"signature def. There are {' and '.join(SIGNATURES)}.",
        )
    given = [key for key in ("instances", "inputs") if key in body]
    if len(given) != 1:
        raise RequestError(
            400,
            'The body must have either "instances" or "inputs". Received: '
            f"{'both' if given else shown(sorted(body)[: len(_KEYS)])}.",
        )
    is_in_rows = given == ["instances"]
    values = body[given[0]]
    if not is_in_rows and isinstance(values, dict) and "b64" not in values:
        values = _named(values, "inputs")
    if not isinstance(values, list) or not values:
        raise RequestError(
            400,
            f"`{given[0]}` must have a list of at least one sentence. "
            f"Received: {shown(values)}.",
        )
    if len(values) > max_sentences:
        raise RequestError(
            413,
            f"A request must have at most {max_sentences} sentences. "
            f"Received: {len(values)}.",
        )
    sentences = [
        _sentence(value, f"{given[0]}[{number}]", is_in_rows)
        for number, value in enumerate(values)
    ]
    return PredictRequest(sentences, signature, is_in_rows)


def _named(values: Mapping[str, Any], name: str) -> Any:
    """Returns the value of the one tensor that there is."""
    if set(values) != {INPUT}:
        raise RequestError(
            400,
            f"`{name}` must have one tensor, {INPUT!r}. Received: "
            f"{shown(sorted(values)[:5])}.",
        )
    return values[INPUT]


def _sentence(value: Any, name: str, is_in_rows: bool) -> str:
    """Returns a sentence, which may be named, or in base 64."""
    if is_in_rows and isinstance(value, dict) and set(value) != {"b64"}:
        value = _named(value, name)
    if isinstance(value, dict) and set(value) == {"b64"}:
        encoded = checked_text(value["b64"], f"`b64` of `{name}`")
        try:
            decoded = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError) as error:
            raise RequestError(
                400, f"`b64` of `{name}` must be base 64: {error}."
            ) from error
        # What is no UTF-8 the SavedModel reads so, too.
        return decoded.decode(errors="replace")
    return checked_text(value, f"`{name}`")


def write_answer(
    asked: PredictRequest,
    found: Sequence[Sequence[Translation]],
    num_results: int,
) -> dict[str, Any]:
    """Returns the JSON object that answers a request.

    Args:
        asked: the request.
        found: for each sentence the list of its translations, best first.
        num_results: int. How many there are to be of each, for `n_best`.
    """
    if asked.signature == N_BEST:
        padded = [
            [(result.text, result.score) for result in results]
            + [_MISSING] * (num_results - len(results))
            for results in found
        ]
        columns: tuple[Any, Any] = (
            [[text for text, _ in results] for results in padded],
            [[score for _, score in results] for results in padded],
        )
    else:
        columns = (
            [results[0].text for results in found],
            [results[0].score for results in found],
        )
    if not asked.is_in_rows:
        return {"outputs": {"translations": columns[0], "scores": columns[1]}}
    return {
        "predictions": [
            {"translations": texts, "scores": scores}
            for texts, scores in zip(*columns)
        ]
    }
