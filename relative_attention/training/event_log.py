"""Writes the files that TensorBoard reads."""

import pathlib
import struct
import time
from collections.abc import Sequence
from typing import Any

from relative_attention.tensor_type import Tensor


class EventLog:
    """Writes numbers, histograms, pictures and texts for TensorBoard.

    A run that goes on after a crash writes to files of its own, beginning
    with a mark: what earlier files say of the same steps or later ones never
    happened. So its charts go on where they were.

    Nothing is opened before there is something to write. It needs
    `tensorboard` alone, whatever the backend.

    Args:
        directory: path of the folder; each chart series ("run" in
            TensorBoard's words) is a folder in it.
    """

    def __init__(self, directory: str | pathlib.Path) -> None:
        self.directory = pathlib.Path(directory)
        self._writers: dict[str, Any] = {}

    def scalar(self, series: str, tag: str, value: Any, step: int) -> None:
        """Writes a number."""
        from tensorboard.plugins.scalar import summary_v2

        self._write(series, step, summary_v2.scalar_pb(tag, float(value)))

    def histogram(
        self, series: str, tag: str, values: Tensor, step: int
    ) -> None:
        """Writes how values, a NumPy array, are distributed."""
        import numpy as np
        from tensorboard.plugins.histogram import summary_v2

        values = np.asarray(values, "float64")
        finite = values[np.isfinite(values)]
        self._write(series, step, summary_v2.histogram_pb(tag, finite))

    def image(self, series: str, tag: str, png: bytes, step: int) -> None:
        """Writes a picture, the bytes of a PNG file."""
        import numpy as np
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.plugins.image import metadata
        from tensorboard.util import tensor_util

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
        """Writes a table of texts, a list of rows, the first of them a head.

        TensorBoard shows a text as Markdown; here every character stands for
        itself.
        """
        import numpy as np
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
        """Flushes and closes the files; what is written next opens new ones."""
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
            start = SessionLog(status=SessionLog.START)
            writer.add_event(
                Event(wall_time=time.time(), step=step, session_log=start)
            )
        self._writers[series].add_event(
            Event(wall_time=time.time(), step=step, summary=summary)
        )


def _plain(text: str) -> str:
    """Escapes the characters that Markdown would take for its own."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#~" else c for c in text)
