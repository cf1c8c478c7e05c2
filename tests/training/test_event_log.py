import struct
import time
import types
import zlib

import keras
import numpy as np
import pytest
from tensorboard.backend.event_processing.plugin_event_accumulator import (
    EventAccumulator,
)
from tensorboard.summary.writer import event_file_writer
from tensorboard.util import tensor_util

from relative_attention.training import ChartLog
from relative_attention.training import EpochLogs
from relative_attention.training import EventLog


def read(directory):
    """Lists of pairs of step and value, by tag."""
    accumulator = EventAccumulator(str(directory))
    accumulator.Reload()
    return {
        tag: [
            (event.step, tensor_util.make_ndarray(event.tensor_proto))
            for event in accumulator.Tensors(tag)
        ]
        for tag in accumulator.Tags()["tensors"]
    }


def plugin(directory, tag):
    accumulator = EventAccumulator(str(directory))
    accumulator.Reload()
    return accumulator.SummaryMetadata(tag).plugin_data.plugin_name


@pytest.fixture
def event_log(tmp_path):
    event_log = EventLog(tmp_path)
    yield event_log
    event_log.close()


def tiny_png(width, height):
    def chunk(kind, data):
        check = zlib.crc32(kind + data)
        return (
            struct.pack(">I", len(data))
            + kind
            + data
            + struct.pack(">I", check)
        )

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress((b"\0" + b"\0" * width) * height))
        + chunk(b"IEND", b"")
    )


def test_everything_written_is_read_back(event_log, tmp_path, rng):
    values = rng.normal(size=(7, 5))
    png = tiny_png(3, 2)
    event_log.scalar("train", "loss", 0.5, 10)
    event_log.histogram("train", "table", values, 10)
    event_log.image("train", "picture", png, 20)
    event_log.text("train", "samples", [["a", "b"], ["c", "d"]], 20)
    event_log.flush()
    found = read(tmp_path / "train")
    assert found["loss"] == [(10, 0.5)]
    [(step, buckets)] = found["table"]
    assert step == 10
    assert buckets[0, 0] == values.min() and buckets[-1, 1] == values.max()
    assert buckets[:, 2].sum() == 35
    [(step, picture)] = found["picture"]
    assert (step, list(picture)) == (20, [b"3", b"2", png])
    [(step, table)] = found["samples"]
    assert (step, table.tolist()) == (20, [[b"a", b"b"], [b"c", b"d"]])
    assert [plugin(tmp_path / "train", tag) for tag in found] == [
        "scalars",
        "histograms",
        "images",
        "text",
    ]


def test_characters_of_markdown_stand_for_themselves(event_log, tmp_path):
    event_log.text("train", "samples", [["2 * 3 <b> _x_ | `y`"]], 1)
    event_log.flush()
    [(_, table)] = read(tmp_path / "train")["samples"]
    assert table[0, 0].decode() == r"2 \* 3 \<b\> \_x\_ \| \`y\`"


def test_histogram_leaves_out_what_is_not_finite(event_log, tmp_path):
    event_log.histogram("train", "table", [1.0, np.nan, 3.0, -np.inf], 1)
    event_log.flush()
    [(_, buckets)] = read(tmp_path / "train")["table"]
    assert buckets[:, 2].sum() == 2
    assert buckets[0, 0] == 1.0


def test_log_that_goes_on_takes_the_place_of_what_was_undone(
    tmp_path, monkeypatch
):
    for hours, (steps, value) in enumerate(
        (((1, 2, 3), 0.0), ((2, 3, 4), 1.0))
    ):
        # TensorBoard reads files by their names, which begin with a second.
        clock = types.SimpleNamespace(
            time=lambda hours=hours: time.time() + 3600 * hours
        )
        monkeypatch.setattr(event_file_writer, "time", clock)
        event_log = EventLog(tmp_path)
        for step in steps:
            event_log.scalar("train", "loss", value, step)
        event_log.close()
    assert read(tmp_path / "train")["loss"] == [
        (1, 0.0),
        (2, 1.0),
        (3, 1.0),
        (4, 1.0),
    ]


def test_nothing_is_opened_before_there_is_something_to_write(tmp_path):
    EventLog(tmp_path / "logs").close()
    assert not (tmp_path / "logs").exists()


def test_charts_are_by_step_and_one_for_training_and_validation(
    event_log, tmp_path
):
    charts = ChartLog(event_log, num_steps=lambda: 40)
    charts.set_model(
        types.SimpleNamespace(encoder_blocks=[], decoder_blocks=[])
    )
    charts.on_epoch_end(
        3, {"loss": 2.0, "tokens": 9.0, "val_loss": 3.0, "val_tokens": 9.0}
    )
    assert read(tmp_path / "train") == {"loss": [(40, 2.0)]}
    assert read(tmp_path / "validation") == {"loss": [(40, 3.0)]}


def test_epoch_logs_have_the_rate_and_nothing_of_no_updates():
    callback = EpochLogs()
    optimizer = keras.optimizers.SGD(0.25)
    callback.set_model(types.SimpleNamespace(optimizer=optimizer))
    logs = {"gradient_norm": 1.0, "val_gradient_norm": 0.0, "val_skipped": 0.0}
    callback.on_epoch_end(0, logs)
    assert logs == {"gradient_norm": 1.0, "learning_rate": 0.25}
