"""Writes sample translations for TensorBoard."""

from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import keras

from relative_attention.decoding import Translator
from relative_attention.runs.callbacks.validation_pairs import validation_pairs
from relative_attention.runs.callbacks.validation_translations import (
    validation_translations,
)
from relative_attention.runs.prepared_data import PreparedData
from relative_attention.training import EventLog
from relative_attention.training.averaged_weights import averaged_weights

_NUM_SAMPLES = 5
_HEAD = ["source", "reference", "hypothesis"]


class SampleLog(keras.callbacks.Callback):
    """Translates the first validation sentences, greedily, each epoch.

    They are shown as a table beside their references.

    Args:
        event_log: An `EventLog`.
        data: A `PreparedData`.
        num_steps: A function without arguments that returns how many steps
            are done.
    """

    def __init__(
        self,
        event_log: EventLog,
        data: PreparedData,
        num_steps: Callable[[], int],
    ) -> None:
        super().__init__()
        self.event_log = event_log
        self.data = data
        self.num_steps = num_steps
        self._pairs: list[tuple[str, str]] | None = None

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        if self._pairs is None:
            self._pairs = validation_pairs(self.data, _NUM_SAMPLES)
        # With one beam as in `ValidationBleu`, the search is compiled once.
        self._translator = Translator(
            self.model,
            self.data.target_vocabulary,
            source_vocabulary=self.data.source_vocabulary,
            num_beams=1,
            max_extra_length=20,
        )

    def on_epoch_end(
        self, epoch: int, logs: Mapping[str, Any] | None = None
    ) -> None:
        if not self._pairs:
            return
        sources = [source for source, _ in self._pairs]
        with averaged_weights(self.model):
            hypotheses = validation_translations(self._translator, sources)
        table = [
            [source, reference, hypothesis]
            for (source, reference), hypothesis in zip(self._pairs, hypotheses)
        ]
        self.event_log.text(
            "validation",
            "samples",
            [_HEAD, *table],
            self.num_steps(),
        )
        self.event_log.flush()
