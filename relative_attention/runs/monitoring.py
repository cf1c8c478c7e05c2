"""What a run shows while it trains: a progress line, charts, pictures, BLEU."""

import importlib.util
import itertools
import pathlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras

from relative_attention.decoding import Translator
from relative_attention.errors import InputError
from relative_attention.errors import NotFiniteError
from relative_attention.errors import install_hint
from relative_attention.evaluation import corpus_bleu
from relative_attention.evaluation.scores import can_rise
from relative_attention.plot import model_figure
from relative_attention.plot import training_curve
from relative_attention.plot.figure import figure_png
from relative_attention.recipes.sections import DataSection
from relative_attention.runs.callbacks import ProgressLine
from relative_attention.runs.callbacks import Speed
from relative_attention.runs.logs import ChartLog
from relative_attention.runs.logs import EventLog
from relative_attention.runs.logs import Record
from relative_attention.runs.prepare import PreparedData
from relative_attention.runs.progress import Logs
from relative_attention.runs.progress import RunProgress
from relative_attention.runs.report import Report
from relative_attention.runs.report import bleu_tokenizer
from relative_attention.training import averaged_weights
from relative_attention.training.update import on_one_device

# More sentences would add little, and are translated many times.
_MOST_SENTENCES = 1000
_NUM_SAMPLES = 5


def monitoring_callbacks(
    data: PreparedData, progress: RunProgress
) -> list[keras.callbacks.Callback]:
    """Returns the callbacks that measure and show the progress of training.

    Put them after `ValidationBleu`, which adds to the logs, and before
    `progress`, which records what `Speed` adds. All but `Speed` only read
    weights and logs. Of several machines only the chief has them.
    """
    event_log = EventLog(progress.directory / "logs")
    # Tokens before a resume took none of this process' time.
    speed = Speed(progress.resumed_logs.get("tokens", 0.0))
    callbacks: list[keras.callbacks.Callback] = [
        speed,
        ProgressLine(
            speed,
            progress.total_steps,
            num_steps=lambda: progress.step,
            seconds_left=progress.seconds_left,
        ),
        ChartLog(event_log, lambda: progress.step),
    ]
    if progress.training.pictures:
        callbacks.append(PictureLog(event_log, data, progress))
    return callbacks


def draw_curves(
    directory: pathlib.Path, history: Sequence[Record], report: Report
) -> None:
    """Draws `curve.png` at the end of a run, or reports why it cannot."""
    path = directory / "curve.png"
    try:
        training_curve(history, path)
    except InputError as error:
        report(f"{path.name} is not drawn: {error}")


class ValidationBleu(keras.callbacks.Callback):
    """Adds `val_bleu` to the logs of every n-th round.

    The first 1,000 lines of the validation text are translated greedily, which
    is fast; the finished model is scored with the recipe's beam search.

    Args:
        data: A `PreparedData`.
        every: An integer, the rounds between two computations.
        section: A `DataSection`, which decides sacreBLEU's tokenizer.
        limits: A dict of the recipe's lengths and forbidden repetitions.

    Attributes:
        tokenize: The tokenizer.
        can_rise: Whether BLEU of a perfect translation is not 0.
    """

    def __init__(
        self,
        data: PreparedData,
        every: int,
        section: DataSection,
        limits: Mapping[str, int],
    ) -> None:
        super().__init__()
        self.data = data
        self.every = every
        self._limits = limits
        # Read once: the same lines are scored in each round.
        pairs = itertools.islice(data.validation, _MOST_SENTENCES)
        self._sources, self._references = (list(side) for side in zip(*pairs))
        self.tokenize = bleu_tokenizer(section, self._references)
        # BLEU of very short targets is 0, however good the model.
        self.can_rise = can_rise(self._references, self.tokenize)

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self._translator = _greedy_translator(
            self.model, self.data, **self._limits
        )

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        # By the round, so that machines and resumed runs agree.
        if (epoch + 1) % self.every == 0 and logs is not None:
            with averaged_weights(self.model), on_one_device(self.model):
                hypotheses = _translate(self._translator, self._sources)
            bleu = corpus_bleu(
                hypotheses, self._references, tokenize=self.tokenize
            )
            logs["val_bleu"] = bleu.score


class PictureLog(keras.callbacks.Callback):
    """Shows sample translations, attention and relation embeddings each round.

    A table in TensorBoard shows source, reference and the model's own
    translation of the first validation sentences. A picture, `model_figure`,
    shows the attention of the shortest of them with its reference, so that
    those of several rounds can be compared. If a picture fails, that is
    reported, no more are drawn, and training continues.

    Args:
        event_log: An `EventLog`.
        data: A `PreparedData`.
        progress: The `RunProgress` of the run.
    """

    def __init__(
        self, event_log: EventLog, data: PreparedData, progress: RunProgress
    ) -> None:
        super().__init__()
        self.event_log = event_log
        self.data = data
        self.progress = progress
        # Searched for, not imported, so that training begins sooner.
        self._draws = importlib.util.find_spec("matplotlib") is not None
        if not self._draws:
            progress.report(
                "pictures of attention and relation embeddings are not drawn: "
                f"they need `matplotlib` ({install_hint('plot')})"
            )

    def on_train_begin(self, logs: Logs | None = None) -> None:
        with_text = (
            pair
            for pair in self.data.validation
            if all(side.strip() for side in pair)
        )
        self._pairs = list(itertools.islice(with_text, _NUM_SAMPLES))
        self._translator = _greedy_translator(
            self.model, self.data, max_extra_length=20
        )

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        with averaged_weights(self.model), on_one_device(self.model):
            # A validation text may have no line with both sides.
            if self._pairs:
                self._write_samples()
                if self._draws:
                    self._draw()
        self.event_log.flush()

    def _write_samples(self) -> None:
        hypotheses = _translate(
            self._translator, [source for source, _ in self._pairs]
        )
        rows = [["source", "reference", "hypothesis"]]
        for pair, hypothesis in zip(self._pairs, hypotheses):
            rows.append([*pair, hypothesis])
        self.event_log.text("validation", "samples", rows, self.progress.step)

    def _draw(self) -> None:
        # Short sentences are quick to draw.
        source, target = min(self._pairs, key=lambda pair: len(pair[0]))
        try:
            figure = model_figure(self._translator, source, target)
            self.event_log.image(
                "validation",
                "attention",
                figure_png(figure),
                self.progress.step,
            )
        # A long run must not end because of a font or a figure.
        except Exception as error:
            self._draws = False
            self.progress.report(
                "pictures of attention and relation embeddings are no longer "
                f"drawn: {type(error).__name__}: {error}"
            )


def _greedy_translator(
    model: keras.Model, data: PreparedData, **settings: Any
) -> Translator:
    # Its graphs are traced once and used in all rounds.
    return Translator(
        model,
        data.target_vocabulary,
        source_vocabulary=data.source_vocabulary,
        num_beams=1,
        **settings,
    )


def _translate(translator: Translator, sources: Sequence[str]) -> list[str]:
    """Translates; lines are empty if the model is not finite.

    Training may recover (`training.on_nonfinite`), and reports this itself.
    """
    try:
        return [one.text for one in translator.search(sources)]
    except NotFiniteError:
        return [""] * len(sources)
