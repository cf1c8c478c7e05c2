"""The counters of a server, for Prometheus."""

import functools

from prometheus_client import CollectorRegistry
from prometheus_client import Counter
from prometheus_client import Gauge
from prometheus_client import Histogram
from prometheus_client import ProcessCollector

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The counters of one server."""

    def __init__(self) -> None:
        # A process may have several servers, in tests for example.
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        counter = functools.partial(Counter, registry=self.registry)
        gauge = functools.partial(Gauge, registry=self.registry)
        histogram = functools.partial(Histogram, registry=self.registry)
        self.requests = counter(
            "translator_requests", "Requests answered", ["path", "status"]
        )
        self.request_seconds = histogram(
            "translator_request_seconds",
            "Seconds from a request to its answer",
            ["path"],
            buckets=_SECONDS,
        )
        self.sentences = counter(
            "translator_sentences", "Sentences translated", ["model"]
        )
        self.batch_sentences = histogram(
            "translator_batch_sentences",
            "Sentences translated at a time",
            buckets=_SIZES,
        )
        self.batch_seconds = histogram(
            "translator_batch_seconds",
            "Seconds that the model took for a batch",
            buckets=_SECONDS,
        )
        self.waiting = gauge(
            "translator_waiting_requests", "Requests that wait for the model"
        )
        self.model_version = gauge(
            "translator_model_version",
            "Version of a model, one more each time it was replaced",
            ["model"],
        )
