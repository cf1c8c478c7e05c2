"""Draws what a model learns, for TensorBoard."""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.models.transformer import decoder_inputs
from relative_attention.plot import attention_figure
from relative_attention.plot import figure_png
from relative_attention.plot import relation_figure
from relative_attention.runs.callbacks.validation_pairs import validation_pairs
from relative_attention.runs.prepared_data import PreparedData
from relative_attention.runs.report import Report
from relative_attention.training import EventLog
from relative_attention.training import relation_tables
from relative_attention.training.averaged_weights import averaged_weights

# More tokens could hardly be read, and their names take long to draw.
_MOST_TOKENS = 30


class PictureLog(keras.callbacks.Callback):
    """Draws relation embeddings and the attention of a fixed sentence.

    The sentence is the first of the validation text, with its reference, so
    that the pictures of one epoch can be compared with those of another. A
    picture that fails is reported, and no more are drawn: training goes on.

    Args:
        event_log: An `EventLog`.
        data: A `PreparedData`.
        num_steps: A function without arguments that returns how many steps
            are done.
        report: A function that is called with a line for the log if a
            picture fails.
    """

    def __init__(
        self,
        event_log: EventLog,
        data: PreparedData,
        num_steps: Callable[[], int],
        report: Report,
    ) -> None:
        super().__init__()
        self.event_log = event_log
        self.data = data
        self.num_steps = num_steps
        self.report = report
        self._token_ids: list[np.ndarray] | None = None
        self._has_failed = False

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        if self._token_ids is None:
            vocabularies = (
                self.data.source_vocabulary,
                self.data.target_vocabulary,
            )
            self._token_ids = [
                _token_ids(vocabulary, text)
                for pair in validation_pairs(self.data, 1)
                for vocabulary, text in zip(vocabularies, pair)
            ]

    def on_epoch_end(
        self, epoch: int, logs: Mapping[str, Any] | None = None
    ) -> None:
        if self._has_failed:
            return
        try:
            with averaged_weights(self.model):
                figures = dict(self._figures())
            for tag, figure in figures.items():
                self.event_log.image(
                    "validation", tag, figure_png(figure), self.num_steps()
                )
        # Whatever a font or a figure fails with, a run of days goes on.
        except Exception as error:
            self._has_failed = True
            self.report(
                "pictures of attention and relation embeddings are no longer "
                f"drawn: {type(error).__name__}: {error}"
            )
        self.event_log.flush()

    def _figures(self) -> Iterator[tuple[str, Any]]:
        tables = relation_tables(self.model)
        for stack in ("encoder", "decoder"):
            of_stack = {
                name: table
                for name, table in tables.items()
                if name.startswith(stack)
            }
            if of_stack:
                yield (
                    f"relations/{stack}",
                    relation_figure(
                        of_stack,
                        f"Relation embeddings of the {stack} by distance "
                        "(key position - query position)",
                    ),
                )
        if self._token_ids:
            yield "attention", self._attention(*self._token_ids)

    def _attention(self, source_ids: np.ndarray, target_ids: np.ndarray) -> Any:
        scores = self.model.attention_scores(
            {
                "source_token_ids": source_ids[None],
                "target_token_ids": decoder_inputs(
                    target_ids[None], self.model.start_token_id
                ),
            }
        )
        return attention_figure(
            {
                name: [
                    keras.ops.convert_to_numpy(block)[0].astype("float32")
                    for block in blocks
                ]
                for name, blocks in scores.items()
            },
            self.data.source_vocabulary.pieces(source_ids),
            self.data.target_vocabulary.pieces(target_ids),
        )


def _token_ids(vocabulary: AnyVocabulary, text: str) -> np.ndarray:
    token_ids = vocabulary.encode([text])[0] + [vocabulary.end_id]
    return np.array(token_ids[:_MOST_TOKENS], "int32")
