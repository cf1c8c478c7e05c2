"""The application: access, routes and answers."""

import asyncio
import contextlib
import dataclasses
import functools
import hmac
import importlib.util
import itertools
import logging
import pathlib
import signal
import socket
import time
from collections.abc import AsyncIterator
from collections.abc import Callable
from collections.abc import Coroutine
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client import generate_latest
from starlette.applications import Starlette
from starlette.convertors import Convertor
from starlette.convertors import register_url_convertor
from starlette.datastructures import Headers
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.responses import Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp
from starlette.types import Message
from starlette.types import Receive
from starlette.types import Scope
from starlette.types import Send

from relative_attention.decoding import Translation
from relative_attention.decoding import Translator
from relative_attention.decoding.searcher import Searcher
from relative_attention.decoding.searcher import check_attention
from relative_attention.decoding.translator import restored_lines
from relative_attention.errors import InputError
from relative_attention.errors import check_packages
from relative_attention.plot.attention_page import content_security_policy
from relative_attention.serve.batcher import Batcher
from relative_attention.serve.metrics import Metrics
from relative_attention.serve.models import ServedModel
from relative_attention.serve.models import find_alternatives
from relative_attention.serve.models import load_models
from relative_attention.serve.models import reload_models
from relative_attention.serve.predict import HUNG_UP
from relative_attention.serve.predict import checked_text
from relative_attention.serve.predict import checked_texts
from relative_attention.serve.predict import read_json_body
from relative_attention.serve.predict import read_predict
from relative_attention.serve.predict import write_predict
from relative_attention.text.prepared import Sentence
from relative_attention.text.prepared import text_after
from relative_attention.text.prepared import text_before

# How long a stopping server may take to finish running requests.
_FINISH_SECONDS = 120
_RELOAD_SECONDS = 1.0
# The most pieces per byte in any vocabulary: the vocabularies of tensor2tensor
# write unknown characters as numbers.
_MOST_TOKENS_OF_A_BYTE = 5
_MOST_CHARACTERS_OF_AN_ERROR = 500
# Translations with a lower mean log-probability of a token are unsure. For the
# bundled models these are 13 to 18 of 100 translations of everyday sentences.
# Unsure translations have chrF 43 to 46, the others 67 to 74.
_UNSURE = -0.3
_PAGE = ("/", "/index.html", "/page.css", "/page.js", "/icon.svg")
# Paths without a token: the page, which asks for it, and the health check.
_OPEN = (*_PAGE, "/healthz")


class _ModelName(Convertor[str]):
    """The name of a model in a path, without what may follow: `:predict`."""

    regex = "[^/:]+"

    def convert(self, value: str) -> str:
        """Returns the name of the model."""
        return value

    def to_string(self, value: str) -> str:
        """Returns its part of the path."""
        return value


register_url_convertor("model", _ModelName())


@dataclasses.dataclass(frozen=True)
class ServerSettings:
    """Batches, limits and access of a server.

    Attributes:
        max_batch: int. Most sentences translated at a time.
        max_wait_ms: float. Longest pause after a batch, see `Batcher`.
        queue: int. Most requests that wait; further ones get 429.
        max_bytes: int. Most bytes of a request's body.
        max_sentences: int. Most sentences of a request.
        max_tokens: int. Most tokens of a request, over all its sentences.
        token: string that requests must have, or `None`, no token.
        reload: bool. Whether to reload a model whose folder is replaced.
    """

    max_batch: int = 64
    max_wait_ms: float = 250.0
    queue: int = 256
    max_bytes: int = 2**18
    max_sentences: int = 128
    max_tokens: int = 8192
    token: str | None = None
    reload: bool = False


def make_app(
    models: Mapping[str, ServedModel], settings: ServerSettings | None = None
) -> Starlette:
    """Makes an ASGI application that serves models.

    Args:
        models: dict of `ServedModel` by name, see `load_models`.
        settings: `ServerSettings`. Defaults to `None`, the default ones.

    Returns:
        `Starlette`, for any ASGI server with one process.
    """
    settings = settings or ServerSettings()
    handlers = _Handlers(models, settings)
    page = StaticFiles(
        packages=[("relative_attention.serve", "page")], html=True
    )
    post = functools.partial(Route, methods=["POST"])
    model = "/api/models/{name:model}"
    app = Starlette(
        routes=[
            Route("/v1/models", handlers.names),
            Route("/v1/models/{name:model}", handlers.status),
            post("/v1/models/{name:model}:predict", handlers.predict),
            Route("/api/models", handlers.models),
            post(f"{model}/translate", handlers.translate),
            post(f"{model}/alternatives", handlers.alternatives),
            post(f"{model}/view", handlers.view),
            post("/api/bleu", handlers.bleu),
            Route("/healthz", handlers.healthz),
            Route("/metrics", handlers.metrics),
            *(Route(path, page) for path in _PAGE),
        ],
        middleware=[
            Middleware(_Guard, token=settings.token, counters=handlers.counters)
        ],
        exception_handlers={
            HTTPException: _answer_http_exception,
            InputError: _answer_input_error,
            Exception: _answer_failure,
        },
        lifespan=handlers.running,
    )
    # Nothing is answered at another path than these.
    app.router.redirect_slashes = False
    return app


class _Handlers:
    """Answers requests; those that take long go through one queue."""

    def __init__(
        self, models: Mapping[str, ServedModel], settings: ServerSettings
    ) -> None:
        self._models = dict(models)
        self._settings = settings
        self.counters = Metrics()
        self._batcher = Batcher(
            settings.max_batch,
            settings.max_wait_ms,
            settings.queue,
            self.counters,
        )
        for name, model in models.items():
            self.counters.model_version.labels(name).set(model.version)

    @contextlib.asynccontextmanager
    async def running(self, app: Starlette) -> AsyncIterator[None]:
        """Runs while the context lasts."""
        async with self._batcher.running():
            reloading = None
            if self._settings.reload:
                reloading = asyncio.create_task(
                    reload_models(self._models, self.counters, _RELOAD_SECONDS)
                )
            yield
            if reloading is not None:
                reloading.cancel()

    async def predict(self, request: Request) -> Response:
        """Translates."""
        model, body = self._model(request), await self._body(request)
        asked = read_predict(body, self._settings.max_sentences)
        await self._check_tokens(request, model, asked.sentences)
        lines = await asyncio.to_thread(
            model.prepare,
            asked.sentences,
            asked.split_sentences,
            asked.is_n_best,
            asked.glossary,
        )
        # Sentences, so that a paragraph does not hold up other requests.
        work = model.n_best if asked.is_n_best else model.best
        found = restored_lines(
            lines, await self._submit(request, model, work, _searched(lines))
        )
        return JSONResponse(
            write_predict(asked, found, model.translator.num_beams)
        )

    async def translate(self, request: Request) -> Response:
        """Translates lines for the page, with n-best lists of sentences.

        Of lines with too many tokens in total it takes the first that fit.
        """
        model, body = self._model(request), await self._body(request)
        lines = checked_texts(
            body.get("lines"), "lines", self._settings.max_sentences
        )
        counts = await self._token_counts(request, model, lines)
        totals = itertools.accumulate(counts)
        lines = [
            line
            for line, total in zip(lines, totals)
            if total <= self._settings.max_tokens
        ]
        if not lines:
            raise self._too_many_tokens(counts[0])
        prepared = await asyncio.to_thread(model.prepare, lines)
        found = iter(
            await self._submit(
                request, model, model.n_best, _searched(prepared)
            )
        )
        shown = [
            [
                _page_sentence(
                    one,
                    None if one.is_kept else next(found),
                    model.translator.length_penalty,
                    follower,
                )
                for one, follower in itertools.zip_longest(line, line[1:])
            ]
            for line in prepared
        ]
        most = model.translator.max_source_length
        return JSONResponse({"lines": shown, "max_tokens": most})

    async def _submit(
        self,
        request: Request,
        model: ServedModel,
        work: Callable[[list[Sentence]], list[list[Translation]]],
        sentences: list[Sentence],
    ) -> list[list[Translation]]:
        """Translates sentences in their turn, and counts them."""
        found = await _unless_hung_up(
            request, self._batcher.submit(work, sentences)
        )
        self.counters.sentences.labels(model.name).inc(len(found))
        return found

    async def status(self, request: Request) -> Response:
        """Returns the version of a model, like TensorFlow Serving."""
        version = {
            "version": str(self._model(request).version),
            "state": "AVAILABLE",
            "status": {"error_code": "OK", "error_message": ""},
        }
        return JSONResponse({"model_version_status": [version]})

    async def names(self, request: Request) -> Response:
        """Lists the models, like KServe; TensorFlow Serving has no list."""
        return JSONResponse({"models": list(self._models)})

    async def models(self, request: Request) -> Response:
        """Tells the page about the models."""
        models = [
            {
                "name": name,
                **model.about,
                "splits_sentences": model.translator.splits_sentences,
                "has_attention": not isinstance(
                    model.translator.model, Searcher
                ),
            }
            for name, model in self._models.items()
        ]
        most = self._settings.max_sentences
        # An installation for translating alone lacks it.
        has_bleu = importlib.util.find_spec("sacrebleu") is not None
        return JSONResponse(
            {"models": models, "max_sentences": most, "has_bleu": has_bleu}
        )

    async def alternatives(self, request: Request) -> Response:
        """Finds translations that differ after a prefix."""
        asked = await self._model_and_texts(request, "sentence", "prefix")
        found = await self._call(request, find_alternatives, *asked)
        penalty = asked[0].length_penalty
        return JSONResponse(
            {"alternatives": [_page_result(one, penalty) for one in found]}
        )

    async def view(self, request: Request) -> Response:
        """Makes the attention view of a sentence."""
        asked = await self._model_and_texts(request, "sentence", "translation")
        page = await self._call(request, _view_page, *asked)
        return JSONResponse({"html": page})

    async def bleu(self, request: Request) -> Response:
        """Computes BLEU of translations, with a reference each."""
        body = await self._body(request)
        most = self._settings.max_sentences
        pair = [
            checked_texts(body.get(key), key, most)
            for key in ("translations", "references")
        ]
        if len(pair[0]) != len(pair[1]):
            raise InputError(
                "There must be a reference for each translation. Received: "
                f"{len(pair[0])} translations, {len(pair[1])} references."
            )
        return JSONResponse(await self._call(request, _bleu, *pair))

    async def healthz(self, request: Request) -> Response:
        """Says that the server is running."""
        return JSONResponse({"status": "ok"})

    async def metrics(self, request: Request) -> Response:
        """Returns all counters for Prometheus."""
        text = generate_latest(self.counters.registry)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    async def _body(self, request: Request) -> dict[str, Any]:
        return await read_json_body(request, self._settings.max_bytes)

    def _model(self, request: Request) -> ServedModel:
        name = request.path_params["name"]
        if name not in self._models:
            raise HTTPException(
                404,
                f"There is no model {name[:80]!r} here. There are: "
                f"{', '.join(self._models)}.",
            )
        return self._models[name]

    async def _model_and_texts(self, request: Request, *keys: str) -> list[Any]:
        """Reads a request of the page: a translator and some texts."""
        model, body = self._model(request), await self._body(request)
        texts = [checked_text(body.get(key), key) for key in keys]
        await self._check_tokens(request, model, texts)
        return [model.translator, *texts]

    async def _check_tokens(
        self, request: Request, model: ServedModel, texts: Sequence[str]
    ) -> None:
        """Refuses texts with too many tokens in total."""
        total = sum(await self._token_counts(request, model, texts))
        if total > self._settings.max_tokens:
            raise self._too_many_tokens(total)

    async def _token_counts(
        self, request: Request, model: ServedModel, texts: Sequence[str]
    ) -> list[int]:
        """Returns how many tokens texts have, or more if they are few."""
        bounds = [len(text.encode()) * _MOST_TOKENS_OF_A_BYTE for text in texts]
        if sum(bounds) <= self._settings.max_tokens:
            return bounds
        vocabulary = model.translator.source_vocabulary
        rows = await self._call(request, vocabulary.encode, list(texts))
        return [len(row) for row in rows]

    def _too_many_tokens(self, count: int) -> HTTPException:
        return HTTPException(
            413,
            f"A request must have at most {self._settings.max_tokens} tokens. "
            f"Received: {count}.",
        )

    async def _call(
        self, request: Request, function: Callable[..., Any], *arguments: Any
    ) -> Any:
        """Calls a function in its turn."""
        return await _unless_hung_up(
            request, self._batcher.call(function, *arguments)
        )


async def _unless_hung_up(
    request: Request, answer: Coroutine[Any, Any, Any]
) -> Any:
    """Waits for an answer; cancels it if the client hangs up.

    Raises:
        HTTPException: if the client hung up; nobody reads it.
    """
    answering = asyncio.create_task(answer)
    # The body has been read, so this is the end of the connection.
    hanging_up = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait(
            {answering, hanging_up}, return_when=asyncio.FIRST_COMPLETED
        )
        if answering.done():
            return answering.result()
        raise HTTPException(HUNG_UP, "The client hung up.")
    finally:
        answering.cancel()
        hanging_up.cancel()


def _searched(lines: Sequence[Sequence[Sentence]]) -> list[Sentence]:
    """Returns the sentences of lines that are searched."""
    return [one for line in lines for one in line if not one.is_kept]


def _page_sentence(
    part: Sentence,
    results: Sequence[Translation] | None,
    length_penalty: float,
    follower: Sentence | None,
) -> dict[str, Any]:
    """Returns what the page shows of a sentence."""
    # Only what the model itself has found can be continued by it.
    is_plain = results is not None and not part.things
    if results is None:
        results = [Translation(part.text, 0.0, was_cut=False)]
    return {
        "sentence": part.text,
        "before": text_before(part, results[0].text),
        "after": text_after(part, results[0].text, follower),
        "is_plain": is_plain and part.raised_for is None,
        "was_cut": results[0].was_cut,
        "translations": [_page_result(one, length_penalty) for one in results],
    }


def _page_result(one: Translation, length_penalty: float) -> dict[str, Any]:
    # Without a search, a text has no tokens.
    parts = [part for part in one.sentences or (one,) if part.token_ids]
    return {
        "text": one.text,
        "score": one.score,
        "is_unsure": any(
            _token_score(part, length_penalty) < _UNSURE for part in parts
        ),
    }


def _token_score(one: Translation, length_penalty: float) -> float:
    """Returns the mean log-probability of a token, see `beam_search`."""
    length = len(one.token_ids)
    return one.score * ((5 + length) / 6) ** length_penalty / length


def _view_page(translator: Translator, sentence: str, translation: str) -> str:
    # Before what needs Keras is imported.
    check_attention(translator.model)
    from relative_attention.plot import attention_view

    return attention_view(translator, sentence, translation).to_html()


def _bleu(translations: list[str], references: list[str]) -> dict[str, Any]:
    """Computes BLEU of all and of each."""
    check_packages("BLEU needs `sacrebleu`", None, "sacrebleu")
    from relative_attention.evaluation import corpus_bleu
    from relative_attention.evaluation import sentence_scores
    from relative_attention.evaluation.scores import fitting_tokenizer

    tokenize = fitting_tokenizer(references)
    bleu = corpus_bleu(translations, references, tokenize=tokenize)
    scores = sentence_scores(
        translations, references, ["bleu"], tokenize=tokenize
    )
    return {
        "bleu": bleu.score,
        "signature": bleu.signature,
        "sentences": scores["bleu"],
    }


class _Guard:
    """Checks the token and the origin, and counts requests.

    Args:
        app: the ASGI application behind it.
        token: string, or `None` for no token.
        counters: `Metrics` that count requests.
    """

    def __init__(
        self, app: ASGIApp, token: str | None, counters: Metrics
    ) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._counters = counters
        self._headers = _protecting_headers()

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answers a request, or passes it to the application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        status = 500

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        app = self._refusal(scope["path"], Headers(scope=scope)) or self._app
        try:
            await app(scope, receive, send_guarded)
        finally:
            # The router records the function that answers; files have none.
            path = getattr(scope.get("endpoint"), "__name__", "other")
            self._counters.requests.labels(path, status).inc()
            self._counters.request_seconds.labels(path).observe(
                time.perf_counter() - start
            )

    def _refusal(self, path: str, headers: Headers) -> ASGIApp | None:
        """Returns the answer to a refused request, or `None`."""
        origin = headers.get("origin")
        if origin is not None and (
            origin.partition("://")[2] != headers.get("host")
        ):
            return _error(
                403,
                "Pages of other servers may not ask here. Received: a request "
                f"from {origin[:80]!r}.",
            )
        if self._token is None or path in _OPEN:
            return None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        # Takes the same time for any token.
        is_token = hmac.compare_digest(given.strip().encode(), self._token)
        if scheme.lower() == "bearer" and is_token:
            return None
        return _error(
            401,
            "This server asks for its token, in a header `Authorization: "
            "Bearer TOKEN`.",
            {"WWW-Authenticate": "Bearer"},
        )


def _protecting_headers() -> dict[str, str]:
    policy = content_security_policy()
    for kind in ("script-src", "style-src", "img-src"):
        policy = policy.replace(kind, f"{kind} 'self'")
    return {
        "Content-Security-Policy": (
            f"{policy}; connect-src 'self'; frame-ancestors 'none'"
        ),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }


def _error(
    status: int, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Returns an error in the form of TensorFlow Serving, in one line."""
    line = " ".join(message.split())[:_MOST_CHARACTERS_OF_AN_ERROR]
    return JSONResponse({"error": line}, status, headers)


async def _answer_http_exception(request: Request, error: Any) -> Response:
    message = error.detail
    if message in ("Not Found", "Method Not Allowed"):
        message += f": {request.method} {request.scope['path'][:200]}"
    return _error(error.status_code, message, error.headers)


async def _answer_input_error(request: Request, error: Exception) -> Response:
    return _error(400, str(error))


async def _answer_failure(request: Request, error: Any) -> Response:
    # Starlette calls this outside of `_Guard`, and logs the error.
    return _error(500, "The server failed, see its log.", _protecting_headers())


def run_server(
    folders: Mapping[str, pathlib.Path],
    host: str,
    port: int,
    settings: ServerSettings,
    report: Callable[[str], object] = print,
    loading: Mapping[str, Any] | None = None,
) -> None:
    """Serves models until SIGINT or SIGTERM, then finishes what it has.

    Args:
        folders: dict of names to folders of models.
        host: string, the address to listen on.
        port: int. `0` takes any free port.
        settings: `ServerSettings`.
        report: called with a line for each model that is loaded, and with
            one when the server is ready.
        loading: dict of `engine`, `dtype` and `threads`, see
            `load_translator`. Defaults to `None`, the usual ones.

    Raises:
        InputError: if a model cannot be loaded, or the address is not free.
    """
    # TensorFlow warns about many graphs where there are many models.
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    # Bind first, so that a busy port fails fast; listen once models are loaded.
    with contextlib.closing(_bound_socket(host, port)) as bound:
        models = load_models(folders, report, **(loading or {}))
        config = uvicorn.Config(
            make_app(models, settings),
            ws="none",
            lifespan="on",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_FINISH_SECONDS,
        )
        # Connections inherit this, so that the next server can bind the port.
        _share_port(bound, True)
        bound.listen(config.backlog)
        shown_host = f"[{host}]" if ":" in host else host
        port = bound.getsockname()[1]
        report(f"Serving {', '.join(models)} at http://{shown_host}:{port}/")
        # Uvicorn raises the signal that ended it once more: ignore it then.
        before = signal.signal(signal.SIGTERM, lambda *_: None)
        try:
            uvicorn.Server(config).run(sockets=[bound])
        finally:
            signal.signal(signal.SIGTERM, before)


def _bound_socket(host: str, port: int) -> socket.socket:
    """Returns a bound socket that does not listen yet."""
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    # The port may still have connections of an earlier server.
    _share_port(bound, True)
    try:
        bound.bind((host, port))
    except (OSError, UnicodeError) as error:
        bound.close()
        raise InputError(
            f"Nothing can listen at {host}, port {port}: {error}. Choose "
            "another with --host and --port."
        ) from error
    # Otherwise another server could bind the port, too, until one listens.
    _share_port(bound, False)
    return bound


def _share_port(bound: socket.socket, value: bool) -> None:
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, value)
