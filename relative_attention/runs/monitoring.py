"""What a run shows while it trains: a progress line, charts, pictures, BLEU."""

import importlib.util
import itertools
import pathlib
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.decoding import Translator
from relative_attention.errors import InputError
from relative_attention.errors import NotFiniteError
from relative_attention.errors import install_hint
from relative_attention.evaluation import corpus_bleu
from relative_attention.models.transformer import decoder_inputs
from relative_attention.plot import attention_figure
from relative_attention.plot import figure_png
from relative_attention.plot import relation_figure
from relative_attention.plot import training_curve
from relative_attention.runs.prepare import PreparedData
from relative_attention.runs.report import Report
from relative_attention.runs.report import print_error
from relative_attention.training import ChartLog
from relative_attention.training import EventLog
from relative_attention.training import ProgressLine
from relative_attention.training import Record
from relative_attention.training import averaged_weights
from relative_attention.training import relation_tables

# More sentences tell little more, and are translated again and again.
_MOST_SENTENCES = 1000
_NUM_SAMPLES = 5
# More tokens could hardly be read, and their names take long to draw.
_MOST_TOKENS = 30


def monitoring_callbacks(
    directory: pathlib.Path | str,
    data: PreparedData,
    total_steps: int,
    num_steps: Callable[[], int],
    pictures: bool = True,
    report: Report = print_error,
    first_tokens: float = 0.0,
    seconds_left: Callable[[], float | None] = lambda: None,
) -> list[keras.callbacks.Callback]:
    """Returns the callbacks that show how training goes.

    Put them after `ValidationBleu`, which adds to the logs, and before
    `RunProgress`, whose history has what they add: `learning_rate` and
    `tokens_per_second`. They only read weights and logs: of several machines
    the chief has them.

    Args:
        directory: The path of the run.
        data: A `PreparedData`.
        total_steps: An integer, the steps of the whole training.
        num_steps: A function without arguments that returns how many steps
            are done.
        pictures: A boolean to indicate whether TensorBoard gets pictures of
            attention and relation embeddings, and sample translations.
            Defaults to `True`.
        report: A function that is called with a line for the log where
            something is not drawn.
        first_tokens: A float, the tokens of a resumed epoch that were counted
            before. Defaults to `0.0`.
        seconds_left: A function without arguments that returns how much of
            `training.minutes` is left. Defaults to no limit.
    """
    event_log = EventLog(pathlib.Path(directory) / "logs")
    callbacks: list[keras.callbacks.Callback] = [
        ProgressLine(
            total_steps,
            num_steps=num_steps,
            first_tokens=first_tokens,
            seconds_left=seconds_left,
        ),
        ChartLog(event_log, num_steps),
    ]
    if not pictures:
        return callbacks
    callbacks.append(SampleLog(event_log, data, num_steps))
    # Looked for, not imported, so that training begins sooner.
    if importlib.util.find_spec("matplotlib") is None:
        report(
            "pictures of attention and relation embeddings are not drawn: "
            f"they need `matplotlib` ({install_hint('plot')})"
        )
    else:
        callbacks.append(PictureLog(event_log, data, num_steps, report))
    return callbacks


def draw_curves(
    directory: pathlib.Path | str,
    history: Sequence[Record],
    report: Report = print_error,
) -> None:
    """Draws `curve.png` at the end of a run, if it can be drawn.

    Args:
        directory: The path of the run.
        history: The records of its `RunHistory`.
        report: A function that is called with a line for the log if the
            curves are not drawn.
    """
    path = pathlib.Path(directory) / "curve.png"
    try:
        training_curve(history, path)
    except InputError as error:
        report(f"{path.name} is not drawn: {error}")


class ValidationBleu(keras.callbacks.Callback):
    """Adds `val_bleu` to the logs of every n-th epoch.

    The first 1,000 lines of the validation text are translated greedily, which
    is fast; the finished model is scored with the recipe's beam search.

    Args:
        data: A `PreparedData`.
        every: An integer, the epochs between two computations.
    """

    def __init__(self, data: PreparedData, every: int) -> None:
        super().__init__()
        self.data = data
        self.every = every

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        pairs = itertools.islice(self.data.validation, _MOST_SENTENCES)
        self._sources, self._references = (list(side) for side in zip(*pairs))
        self._translator = _greedy_translator(self.model, self.data)

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        if (epoch + 1) % self.every == 0 and logs is not None:
            with averaged_weights(self.model):
                hypotheses = _translate(self._translator, self._sources)
            logs["val_bleu"] = corpus_bleu(hypotheses, self._references).score


class SampleLog(keras.callbacks.Callback):
    """Translates the first validation sentences for TensorBoard, each epoch.

    A table shows source, reference and the model's own translation.

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

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        self._pairs = _first_pairs(self.data, _NUM_SAMPLES)
        self._translator = _greedy_translator(
            self.model, self.data, max_extra_length=20
        )

    def on_epoch_end(
        self, epoch: int, logs: Mapping[str, Any] | None = None
    ) -> None:
        if not self._pairs:
            return
        with averaged_weights(self.model):
            hypotheses = _translate(
                self._translator, [source for source, _ in self._pairs]
            )
        rows = [
            [source, reference, hypothesis]
            for (source, reference), hypothesis in zip(self._pairs, hypotheses)
        ]
        self.event_log.text(
            "validation",
            "samples",
            [["source", "reference", "hypothesis"], *rows],
            self.num_steps(),
        )
        self.event_log.flush()


class PictureLog(keras.callbacks.Callback):
    """Draws relation embeddings and the attention of a sentence, each epoch.

    The sentence is the first of the validation text, with its reference, so
    that pictures of several epochs can be compared. If a picture fails, that
    is reported, no more are drawn, and training continues.

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
        self._has_failed = False

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        vocabularies = (
            self.data.source_vocabulary,
            self.data.target_vocabulary,
        )
        self._token_ids = [
            _token_ids(vocabulary, text)
            for pair in _first_pairs(self.data, 1)
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
        # A run of days must not end because of a font or a figure.
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


def _greedy_translator(
    model: keras.Model, data: PreparedData, **settings: Any
) -> Translator:
    return Translator(
        model,
        data.target_vocabulary,
        source_vocabulary=data.source_vocabulary,
        num_beams=1,
        **settings,
    )


def _translate(translator: Translator, sources: Sequence[str]) -> list[str]:
    """Translates; lines are empty where the model is not finite.

    Training may recover from such a model (`training.on_nonfinite`), and
    reports it itself.
    """
    try:
        return translator.translate(sources)
    except NotFiniteError:
        return [""] * len(sources)


def _first_pairs(data: PreparedData, count: int) -> list[tuple[str, str]]:
    """Returns the first validation pairs with text on both sides."""
    with_text = (
        pair for pair in data.validation if all(side.strip() for side in pair)
    )
    return list(itertools.islice(with_text, count))


def _token_ids(vocabulary: AnyVocabulary, text: str) -> np.ndarray:
    token_ids = vocabulary.encode([text])[0] + [vocabulary.end_id]
    return np.array(token_ids[:_MOST_TOKENS], "int32")
