"""The progress line, TensorBoard and curves of a run."""

import importlib.util
import pathlib
from collections.abc import Callable
from collections.abc import Sequence

import keras

from relative_attention.errors import InputError
from relative_attention.errors import install_hint
from relative_attention.plot import training_curve
from relative_attention.runs.callbacks.picture_log import PictureLog
from relative_attention.runs.callbacks.run_state import Record
from relative_attention.runs.callbacks.sample_log import SampleLog
from relative_attention.runs.prepared_data import PreparedData
from relative_attention.runs.report import Report
from relative_attention.runs.report import print_error
from relative_attention.training import ChartLog
from relative_attention.training import EpochLogs
from relative_attention.training import EventLog
from relative_attention.training import ProgressLine


def monitoring_callbacks(
    directory: pathlib.Path | str,
    data: PreparedData,
    total_steps: int,
    num_steps: Callable[[], int],
    pictures: bool = True,
    report: Report = print_error,
    first_tokens: float = 0.0,
) -> list[keras.callbacks.Callback]:
    """Returns the callbacks that show how training goes.

    They come after what adds to the logs (`ValidationBleu`) and before
    `RunProgress`, whose history then has what they add: `learning_rate` and
    `tokens_per_second`. They read weights and logs, nothing else: of several
    machines the chief has them.

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
        first_tokens: A float, the tokens that were counted before in the
            epoch that is resumed. Defaults to `0.0`.
    """
    event_log = EventLog(pathlib.Path(directory) / "logs")
    callbacks: list[keras.callbacks.Callback] = [
        EpochLogs(),
        ProgressLine(
            total_steps, num_steps=num_steps, first_tokens=first_tokens
        ),
        ChartLog(event_log, num_steps),
    ]
    if not pictures:
        return callbacks
    callbacks.append(SampleLog(event_log, data, num_steps))
    # Looked for, not imported: training begins sooner.
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
