"""Paths of TensorFlow Serving's REST interface."""

import re
from typing import NamedTuple

from relative_attention.serve.request_error import RequestError
from relative_attention.serve.served_models import ServedModel
from relative_attention.serve.served_models import ServedModels

_PATH = re.compile(
    r"/v1/models/(?P<name>[^/:]+)"
    r"(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
    r"(?P<verb>:[a-z]+|/metadata)?"
)


class RestPath(NamedTuple):
    """What a path asks for.

    Attributes:
        name: string. The model.
        version: string of digits, or `None`, the latest.
        label: string that stands for a version, or `None`.
        verb: string. `":predict"` and the like, `"/metadata"`, or `""`, the
            status.
    """

    name: str
    version: str | None
    label: str | None
    verb: str


def parse_path(method: str, path: str) -> RestPath:
    """Reads a path.

    Raises:
        RequestError: 400 if it is none of the interface, as TensorFlow
            Serving has it.
    """
    match = _PATH.fullmatch(path)
    if match is None:
        raise malformed(method, path)
    return RestPath(
        match["name"], match["version"], match["label"], match["verb"] or ""
    )


def malformed(method: str, path: str) -> RequestError:
    """Returns the error for what the interface has not."""
    return RequestError(400, f"Malformed request: {method} {path[:200]}")


def model_of(models: ServedModels, path: RestPath) -> ServedModel:
    """Returns the model that a path names.

    Raises:
        RequestError: 404 if there is no such model, or not in that version.
    """
    model = models.get(path.name)
    if path.label is not None:
        raise RequestError(
            404,
            f"Unrecognized servable version label: {path.label[:80]}. Models "
            "here have no labels.",
        )
    if model is None:
        which = path.version or "Latest"
        asked = (
            f"Latest({path.name[:80]})"
            if path.version is None
            else f"Specific({path.name[:80]}, {which[:20]})"
        )
        raise RequestError(404, f"Servable not found for request: {asked}")
    if path.version is not None and path.version != str(model.version):
        raise RequestError(
            404,
            "Servable not found for request: "
            f"Specific({model.name}, {path.version[:20]}). Version "
            f"{model.version} is served.",
        )
    return model
