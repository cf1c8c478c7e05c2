"""What people look at while a model is trained, and afterwards."""

import importlib.util
import pathlib

from relative_attention.errors import InputError
from relative_attention.install_hint import install_hint
from relative_attention.plot import training_curve
from relative_attention.runs.callbacks.picture_log import PictureLog
from relative_attention.runs.callbacks.sample_log import SampleLog
from relative_attention.training import ChartLog
from relative_attention.training import EpochLogs
from relative_attention.training import EventLog
from relative_attention.training import ProgressLine


def watching_callbacks(keeper, data, total_steps, pictures=True, report=print):
    """The progress line and TensorBoard.

    They come after what adds to the logs (`ValidationBleu`) and before the
    keeper, whose history then has what they add: `learning_rate` and
    `tokens_per_second`. They read weights and logs, nothing else: on several
    machines they belong on the one that writes.

    Args:
        keeper: `RunKeeper`, for its `directory`, `history` and `step`.
        data: `PreparedData`.
        total_steps: int. Steps of the whole training.
        pictures: bool. Whether TensorBoard gets pictures of attention and
            relation embeddings, and sample translations. Defaults to `True`.
        report: called with a line for the log where something is not drawn.

    Returns:
        List of Keras callbacks.
    """
    event_log = EventLog(pathlib.Path(keeper.directory) / "logs")

    def num_steps():
        return keeper.step

    callbacks = [
        EpochLogs(),
        ProgressLine(total_steps, num_steps=num_steps),
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


def draw_curves(directory, history, report=print):
    """Draw `curve.png` at the end of a run, if it can be drawn.

    Args:
        directory: path of the run.
        history: list of dicts, one for each validation; see `RunKeeper`.
        report: called with a line for the log if it is not drawn.
    """
    path = pathlib.Path(directory) / "curve.png"
    try:
        training_curve(history, path)
    except InputError as error:
        report(f"{path.name} is not drawn: {error}")
