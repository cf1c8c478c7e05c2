"""The REST interface of TensorFlow Serving."""

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.responses import Response
from starlette.routing import Route

from relative_attention.serve.predict_form import read_request
from relative_attention.serve.predict_form import write_answer
from relative_attention.serve.request_body import read_json_object
from relative_attention.serve.rest_path import malformed
from relative_attention.serve.rest_path import model_of
from relative_attention.serve.rest_path import parse_path
from relative_attention.serve.server import server_of
from relative_attention.serve.server import unless_hung_up
from relative_attention.serve.signatures import N_BEST
from relative_attention.serve.signatures import metadata
from relative_attention.serve.signatures import status
from relative_attention.serve.work import Translate


async def _read(request: Request) -> Response:
    """Answers `GET`: the status of a model, or its signatures."""
    path = parse_path("GET", request.scope["path"])
    if path.verb not in ("", "/metadata"):
        raise malformed("GET", request.scope["path"])
    model = model_of(server_of(request).models, path)
    return JSONResponse(metadata(model) if path.verb else status(model))


async def _predict(request: Request) -> Response:
    """Answers `POST`: translates."""
    server = server_of(request)
    path = parse_path("POST", request.scope["path"])
    if path.verb != ":predict":
        raise malformed("POST", request.scope["path"])
    model = model_of(server.models, path)
    body = await read_json_object(request, server.settings)
    asked = read_request(body, server.settings.max_sentences)
    await server.check_tokens(model, asked.sentences)
    num_results = model.translator.num_beams
    work = Translate(model, num_results if asked.signature == N_BEST else None)
    found = await unless_hung_up(
        request, server.batcher.submit(work, asked.sentences)
    )
    server.metrics.sentences.labels(model.name).inc(len(found))
    return JSONResponse(write_answer(asked, found, num_results))


REST_ROUTES = [
    Route("/v1/{rest:path}", _read, methods=["GET"]),
    Route("/v1/{rest:path}", _predict, methods=["POST"]),
]
