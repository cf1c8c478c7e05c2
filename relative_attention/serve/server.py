"""What all answers of one server share."""

import asyncio
import contextlib
from collections.abc import Coroutine
from collections.abc import Sequence
from typing import Any
from typing import TypeVar
from typing import cast

from starlette.requests import Request

from relative_attention.serve.batcher import Batcher
from relative_attention.serve.metrics import Metrics
from relative_attention.serve.reload_models import reload_models
from relative_attention.serve.request_error import RequestError
from relative_attention.serve.served_models import ServedModel
from relative_attention.serve.served_models import ServedModels
from relative_attention.serve.server_settings import ServerSettings
from relative_attention.serve.views import Views

Answer = TypeVar("Answer")
# No vocabulary spells a byte in more pieces; those of tensor2tensor write one
# that they do not know as a number.
_MOST_TOKENS_OF_A_BYTE = 5
# Who hung up gets no answer; web servers count it so.
_HUNG_UP = 499


class Server:
    """Models, and the line of requests that wait for them.

    Args:
        models: dict of `ServedModel` by name.
        settings: `ServerSettings`.
    """

    def __init__(self, models: ServedModels, settings: ServerSettings) -> None:
        self.models = models
        self.settings = settings
        self.metrics = Metrics()
        self.batcher = Batcher(
            settings.max_batch,
            settings.max_wait_ms,
            settings.queue,
            self.metrics,
        )
        self.views = Views()
        for name, model in models.items():
            self.metrics.model_version.labels(name).set(model.version)

    async def start(self) -> "asyncio.Task[None] | None":
        """Begins to work; returns the task that watches the folders."""
        self.batcher.start()
        if not self.settings.reload:
            return None
        return asyncio.create_task(
            reload_models(
                self.models, self.metrics, self.settings.reload_seconds
            )
        )

    async def stop(self, watching: "asyncio.Task[None] | None") -> None:
        """Ends, when no request is left."""
        if watching is not None:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
        await self.batcher.stop()

    async def check_tokens(
        self, model: ServedModel, sentences: Sequence[str]
    ) -> None:
        """Refuses sentences of too many tokens in all.

        Raises:
            RequestError: 413.
        """
        most = self.settings.max_tokens
        num_bytes = sum(len(sentence.encode()) for sentence in sentences)
        if num_bytes * _MOST_TOKENS_OF_A_BYTE <= most:
            return
        rows = await asyncio.to_thread(
            model.translator.source_vocabulary.encode, list(sentences)
        )
        num_tokens = sum(map(len, rows))
        if num_tokens > most:
            raise RequestError(
                413,
                f"A request must have at most {most} tokens. Received: "
                f"{num_tokens}.",
            )


def server_of(request: Request) -> Server:
    """Returns the server that a request came to."""
    return cast(Server, request.app.state.server)


async def unless_hung_up(
    request: Request, answer: Coroutine[Any, Any, Answer]
) -> Answer:
    """Waits for an answer as long as its client does.

    Args:
        request: the request, whose body has been read.
        answer: coroutine; it is cancelled if the client hangs up.

    Raises:
        RequestError: if the client hung up; nobody reads it.
    """
    answering = asyncio.ensure_future(answer)
    hanging_up = asyncio.ensure_future(_hang_up(request))
    try:
        await asyncio.wait(
            {answering, hanging_up}, return_when=asyncio.FIRST_COMPLETED
        )
        if answering.done():
            return answering.result()
        raise RequestError(_HUNG_UP, "The client hung up.")
    finally:
        for task in (answering, hanging_up):
            task.cancel()
        await asyncio.gather(answering, hanging_up, return_exceptions=True)


async def _hang_up(request: Request) -> None:
    """Returns when the client has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
