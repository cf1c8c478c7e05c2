"""What a server counts, for Prometheus."""

from prometheus_client import CollectorRegistry
from prometheus_client import Counter
from prometheus_client import Gauge
from prometheus_client import Histogram
from prometheus_client import ProcessCollector
from prometheus_client import generate_latest

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The counters of one server, each of a name beginning `translator_`.

    Attributes:
        requests: by path (its beginning, of which there are few) and status.
        request_seconds: from the headers of a request to its answer, by path.
        sentences: translated sentences, by model.
        batch_sentences, batch_seconds: of what the model was given at a time.
        waiting: requests that wait for the model.
        refused: requests answered 429.
        hung_up: requests whose clients did not wait for the answer.
        model_version: by model; it grows by one when a model is replaced.
    """

    def __init__(self) -> None:
        # One of its own: a process may have several servers, in tests say.
        registry = self._registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter(
            "translator_requests",
            "Requests answered",
            ["path", "status"],
            registry=registry,
        )
        self.request_seconds = Histogram(
            "translator_request_seconds",
            "Seconds from a request to its answer",
            ["path"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.sentences = Counter(
            "translator_sentences",
            "Sentences translated",
            ["model"],
            registry=registry,
        )
        self.batch_sentences = Histogram(
            "translator_batch_sentences",
            "Sentences translated at a time",
            buckets=_SIZES,
            registry=registry,
        )
        self.batch_seconds = Histogram(
            "translator_batch_seconds",
            "Seconds that the model took for a batch",
            buckets=_SECONDS,
            registry=registry,
        )
        self.waiting = Gauge(
            "translator_waiting_requests",
            "Requests that wait for the model",
            registry=registry,
        )
        self.refused = Counter(
            "translator_refused_requests",
            "Requests refused as too many waited",
            registry=registry,
        )
        self.hung_up = Counter(
            "translator_hung_up_requests",
            "Requests whose clients left before the answer",
            registry=registry,
        )
        self.model_version = Gauge(
            "translator_model_version",
            "Version of a model, one more each time it was replaced",
            ["model"],
            registry=registry,
        )

    def text(self) -> bytes:
        """Returns all of them as Prometheus reads them."""
        return generate_latest(self._registry)
