"""The page to type in, and what only it asks for."""

import asyncio
import functools
import importlib.resources
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.responses import JSONResponse
from starlette.responses import Response
from starlette.routing import Route

from relative_attention.decoding import Translator
from relative_attention.errors import InputError
from relative_attention.plot import attention_view
from relative_attention.plot import content_security_policy
from relative_attention.serve.alternatives import find_alternatives
from relative_attention.serve.request_body import checked_text
from relative_attention.serve.request_body import read_json_object
from relative_attention.serve.request_body import shown
from relative_attention.serve.request_body import text_of
from relative_attention.serve.request_error import RequestError
from relative_attention.serve.served_models import ServedModel
from relative_attention.serve.server import server_of
from relative_attention.serve.server import unless_hung_up
from relative_attention.serve.work import Call

_FILES = {
    "": ("index.html", "text/html"),
    "page.css": ("page.css", "text/css"),
    "page.js": ("page.js", "text/javascript"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
}
_NUM_ALTERNATIVES = 6
# Added to the page's own policy: it is of no server, and in our frame alone.
_VIEW_POLICY = "sandbox allow-scripts allow-downloads; frame-ancestors 'self'"


async def _file(request: Request) -> Response:
    """Answers with a file of the page."""
    asked = request.path_params.get("name", "")
    if asked not in _FILES:
        raise RequestError(404, f"There is no file {asked[:80]!r} here.")
    name, media_type = _FILES[asked]
    folder = importlib.resources.files("relative_attention.serve") / "page"
    content = (folder / name).read_bytes()
    return Response(content, media_type=media_type)


async def _models(request: Request) -> Response:
    """Answers with the models, and what can be asked of them."""
    server = server_of(request)
    return JSONResponse(
        {
            "models": [
                {"name": model.name, "version": model.version}
                for model in server.models.values()
            ],
            "max_sentences": server.settings.max_sentences,
        }
    )


async def _alternatives(request: Request) -> Response:
    """Answers with translations that go on otherwise from a prefix."""
    server, body, model = await _read(request)
    sentence, prefix = text_of(body, "sentence"), text_of(body, "prefix")
    await server.check_tokens(model, [sentence, prefix])
    work = Call(
        functools.partial(
            find_alternatives,
            model.translator,
            sentence,
            prefix,
            _NUM_ALTERNATIVES,
        )
    )
    (found,) = await unless_hung_up(
        request, server.batcher.submit(work, [None])
    )
    return JSONResponse(
        {"alternatives": [{"text": t.text, "score": t.score} for t in found]}
    )


async def _view(request: Request) -> Response:
    """Makes the attention view of a sentence, and answers with its path."""
    server, body, model = await _read(request)
    sentence = text_of(body, "sentence")
    await server.check_tokens(model, [sentence])
    translation = body.get("translation")
    if translation is not None:
        checked_text(translation, "`translation`")
        await server.check_tokens(model, [translation])
    work = Call(
        functools.partial(_view_page, model.translator, sentence, translation)
    )
    (page,) = await unless_hung_up(request, server.batcher.submit(work, [None]))
    return JSONResponse({"path": f"/views/{server.views.put(page)}"})


def _view_page(
    translator: Translator, sentence: str, translation: str | None
) -> str:
    """Returns the page of an attention view.

    Raises:
        RequestError: 400 if the sentence cannot be shown.
    """
    try:
        return attention_view(translator, sentence, translation).to_html()
    except InputError as error:
        raise RequestError(400, str(error)) from error


async def _viewed(request: Request) -> Response:
    """Answers with an attention view that was made before."""
    page = server_of(request).views.get(request.path_params["name"])
    if page is None:
        raise RequestError(404, "This view is gone; make it again.")
    return HTMLResponse(
        page,
        headers={
            "Content-Security-Policy": (
                f"{_VIEW_POLICY}; {content_security_policy()}"
            ),
            "X-Frame-Options": "SAMEORIGIN",
        },
    )


async def _bleu(request: Request) -> Response:
    """Answers with BLEU of translations against a reference each."""
    server = server_of(request)
    body = await read_json_object(request, server.settings)
    pair = [
        _lines(body, key, server.settings.max_sentences)
        for key in ("translations", "references")
    ]
    if len(pair[0]) != len(pair[1]):
        raise RequestError(
            400,
            "There must be a reference for each translation. Received: "
            f"{len(pair[0])} translations, {len(pair[1])} references.",
        )
    return JSONResponse(await asyncio.to_thread(_score, *pair))


def _score(translations: list[str], references: list[str]) -> dict[str, Any]:
    """Computes BLEU of all and of each."""
    from relative_attention.evaluation import corpus_bleu
    from relative_attention.evaluation import sentence_scores

    bleu = corpus_bleu(translations, references)
    scores = sentence_scores(translations, references, ["bleu"])
    return {
        "bleu": bleu.score,
        "signature": bleu.signature,
        "sentences": scores["bleu"],
    }


def _lines(body: dict[str, Any], key: str, most: int) -> list[str]:
    """Returns a list of strings of a body."""
    values = body.get(key)
    if not isinstance(values, list) or not 1 <= len(values) <= most:
        raise RequestError(
            400,
            f"`{key}` must be a list of 1 to {most} strings. Received: "
            f"{shown(values)}.",
        )
    return [checked_text(value, f"`{key}`") for value in values]


async def _read(request: Request) -> tuple[Any, dict[str, Any], ServedModel]:
    """Returns the server, the body and the model of a request."""
    server = server_of(request)
    name = request.path_params["name"]
    model = server.models.get(name)
    if model is None:
        raise RequestError(404, f"There is no model {name[:80]!r} here.")
    return server, await read_json_object(request, server.settings), model


PAGE_ROUTES = [
    Route("/", _file),
    Route("/page/{name}", _file),
    Route("/api/models", _models),
    Route("/api/models/{name}/alternatives", _alternatives, methods=["POST"]),
    Route("/api/models/{name}/view", _view, methods=["POST"]),
    Route("/api/bleu", _bleu, methods=["POST"]),
    Route("/views/{name}", _viewed),
]
