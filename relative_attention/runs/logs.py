"""Logs of training: TensorBoard's files and a table.

Why not Keras' `TensorBoard` and `CSVLogger`? The first needs TensorFlow, which
a run on JAX lacks, and has no histograms by head, pictures or texts. The second
appends rows, and would keep rows of updates that a crash has undone.
Why not `tensorboardX`? It takes pixels and not PNG files, builds no tables of
text, prints a line for each `nan`, and two writers in one second overwrite each
other; it would save 20 lines, and be one more package.
"""

import csv
import pathlib
import struct
import time
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from relative_attention.files import atomic_file
from relative_attention.plot import relation_tables

# Numbers by name, logged by one round or one validation.
Record = dict[str, float]


class EventLog:
    """Writes numbers, histograms, pictures and texts for TensorBoard.

    A resumed run writes new files, which begin with a mark. TensorBoard then
    ignores the same and later steps in earlier files.

    Files are opened when there is something to write. This needs `tensorboard`
    but no particular backend.

    Args:
        directory: path of the folder, which gets a folder for each chart
            series (a "run" in TensorBoard).
    """

    def __init__(self, directory: str | pathlib.Path) -> None:
        self.directory = pathlib.Path(directory)
        self._writers: dict[str, Any] = {}

    def scalar(self, series: str, tag: str, value: Any, step: int) -> None:
        """Writes a number."""
        from tensorboard.plugins.scalar import summary_v2

        self._write(series, step, summary_v2.scalar_pb(tag, float(value)))

    def histogram(
        self, series: str, tag: str, values: np.ndarray, step: int
    ) -> None:
        """Writes a histogram of the finite values."""
        from tensorboard.plugins.histogram import summary_v2

        values = np.asarray(values, "float64")
        # TensorBoard cannot draw the others.
        finite = values[np.isfinite(values)]
        self._write(series, step, summary_v2.histogram_pb(tag, finite))

    def image(self, series: str, tag: str, png: bytes, step: int) -> None:
        """Writes a picture, the bytes of a PNG file."""
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.plugins.image import metadata
        from tensorboard.util import tensor_util

        # Where the header of a PNG file has them.
        width, height = struct.unpack(">II", png[16:24])
        content = [str(width).encode(), str(height).encode(), png]
        summary = Summary()
        summary.value.add(
            tag=tag,
            metadata=metadata.create_summary_metadata(None, None),
            tensor=tensor_util.make_tensor_proto(content, dtype=np.object_),
        )
        self._write(series, step, summary)

    def text(
        self, series: str, tag: str, table: Sequence[Sequence[str]], step: int
    ) -> None:
        """Writes a table of texts as rows; the first row is the head.

        TensorBoard shows texts as Markdown, so special characters are escaped.
        """
        from tensorboard.plugins.text import summary_v2

        cells = np.array(
            [[_plain(cell) for cell in row] for row in table], dtype=object
        )
        self._write(series, step, summary_v2.text_pb(tag, cells))

    def flush(self) -> None:
        """Writes everything to the files."""
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        """Closes the files; the next write opens new ones."""
        for writer in self._writers.values():
            writer.close()
        self._writers = {}

    def _write(self, series: str, step: int, summary: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.event_pb2 import SessionLog

        if series not in self._writers:
            from tensorboard.summary.writer.event_file_writer import (
                EventFileWriter,
            )

            writer = EventFileWriter(str(self.directory / series))
            self._writers[series] = writer
            # The mark after which TensorBoard drops later steps of older files.
            start = SessionLog(status=SessionLog.START)
            writer.add_event(
                Event(wall_time=time.time(), step=step, session_log=start)
            )
        self._writers[series].add_event(
            Event(wall_time=time.time(), step=step, summary=summary)
        )


def _plain(text: str) -> str:
    """Escapes the special characters of Markdown."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#~" else c for c in text)


# Sums over a round, which depend on its length.
_NO_CHART = ("tokens", "val_tokens")


class ChartLog(keras.callbacks.Callback):
    """Writes the logs of each round, and histograms of relation embeddings.

    Charts are by update, so a resumed run continues them. Training and
    validation are two series of a chart: `val_loss` is the `loss` of the
    series `validation`.

    Args:
        event_log: `EventLog`.
        num_steps: function without arguments that returns the number of
            updates done.
    """

    def __init__(
        self, event_log: EventLog, num_steps: Callable[[], int]
    ) -> None:
        super().__init__()
        self.event_log = event_log
        self.num_steps = num_steps

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Writes the logs and the histograms."""
        step = self.num_steps()
        for name, value in (logs or {}).items():
            if name in _NO_CHART:
                continue
            is_validation = name.startswith("val_")
            self.event_log.scalar(
                "validation" if is_validation else "train",
                name.removeprefix("val_"),
                value,
                step,
            )
        for name, table in relation_tables(self.model).items():
            for head, values in enumerate(table):
                tag = f"relations/{name}"
                # One table for all heads needs no number.
                if len(table) > 1:
                    tag += f"/head_{head}"
                self.event_log.histogram("train", tag, values, step)
        # Charts are looked at while the run trains.
        self.event_log.flush()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Closes the files."""
        self.event_log.close()


# What `curve_figure` draws, and what `results.json` keeps of the history.
CURVE_COLUMNS = (
    "loss",
    "perplexity",
    "accuracy",
    "val_loss",
    "val_perplexity",
    "val_accuracy",
    "val_bleu",
    "learning_rate",
    "gradient_norm",
)
# Always present and in this order, for scripts that read the table. Other names
# in a history follow.
_COLUMNS = (
    "round",
    "step",
    "seconds",
    *CURVE_COLUMNS,
    "skipped",
    "tokens",
    "tokens_per_second",
)


def write_training_table(
    history: Sequence[Mapping[str, Any]], path: str | pathlib.Path
) -> None:
    """Writes a history, one record per validation, as CSV."""
    # A dict keeps the order and drops repeated names.
    names = dict.fromkeys(_COLUMNS)
    for record in history:
        names.update(dict.fromkeys(record))
    # Written whole each time, as a crash may have undone rows.
    with atomic_file(path, "w") as file:
        writer = csv.DictWriter(file, list(names), lineterminator="\n")
        writer.writeheader()
        writer.writerows(history)
