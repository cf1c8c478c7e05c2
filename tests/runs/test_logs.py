"""TensorBoard's files, relation tables, and `training.csv`."""

import csv
import math
import struct
import time
import types

import numpy as np
import pytest
from tensorboard.backend.event_processing.plugin_event_accumulator import (
    EventAccumulator,
)
from tensorboard.summary.writer import event_file_writer
from tensorboard.util import tensor_util

from relative_attention.plot import relation_tables
from relative_attention.runs.logs import EventLog
from relative_attention.runs.logs import write_training_table
from tests.small_models import tiny_transformer


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


def test_everything_written_is_read_back(event_log, tmp_path, rng):
    values = rng.normal(size=(7, 5))
    # Its size is read, and nothing else.
    png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 3, 2)
    event_log.scalar("train", "loss", 0.5, 10)
    given = np.append(values, [np.nan, -np.inf])
    event_log.histogram("train", "table", given, 10)
    event_log.image("train", "picture", png, 20)
    rows = [["a", "2 * 3 <b> _x_ | `y`"], ["c", "d"]]
    event_log.text("train", "samples", rows, 20)
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
    # Characters of Markdown stand for themselves.
    text = rb"2 \* 3 \<b\> \_x\_ \| \`y\`"
    assert (step, table.tolist()) == (20, [[b"a", text], [b"c", b"d"]])
    assert [plugin(tmp_path / "train", tag) for tag in found] == [
        "scalars",
        "histograms",
        "images",
        "text",
    ]


def test_resumed_log_replaces_later_steps(tmp_path, monkeypatch):
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


# === Relation tables ===


def make_model(**overrides):
    return tiny_transformer(
        num_encoder_layers=2,
        key_dim=2,
        value_dim=5,
        max_relative_position=4,
        **overrides,
    )


@pytest.mark.parametrize("is_shared", [True, False])
def test_relation_tables_of_all_blocks_are_found(is_shared):
    model = make_model(share_relations_across_heads=is_shared)
    tables = relation_tables(model)
    num_tables = 1 if is_shared else 2
    assert {name: table.shape for name, table in tables.items()} == {
        f"{block}/{side}": (num_tables, 9, dim)
        for block in ("encoder_block_0", "encoder_block_1", "decoder_block_0")
        for side, dim in (("key", 2), ("value", 5))
    }
    layer = model.encoder_blocks[1].self_attention
    np.testing.assert_array_equal(
        tables["encoder_block_1/value"].reshape(-1),
        np.asarray(layer.value_relation_embeddings).reshape(-1),
    )


def test_missing_relation_tables_are_left_out():
    assert relation_tables(make_model(position_encoding="sinusoidal")) == {}
    names = relation_tables(make_model(use_value_relations=False))
    assert {name.split("/")[1] for name in names} == {"key"}


# === The table ===

HISTORY = [
    {"round": 1, "step": 10, "seconds": 1.5, "loss": 1 / 3, "val_loss": 0.1},
    {"round": 2, "step": 20, "seconds": 2.5, "loss": math.inf, "val_bleu": 7.0},
]


def test_training_table_has_the_same_columns_from_the_start(tmp_path):
    path = tmp_path / "training.csv"

    def columns_of(history):
        write_training_table(history, path)
        return path.read_text().split("\n")[0].split(",")

    columns = columns_of([])
    assert columns[:4] == ["round", "step", "seconds", "loss"]
    assert {"val_bleu", "learning_rate", "gradient_norm"} <= set(columns)
    assert columns_of(HISTORY) == columns
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [
        {name: float(text) for name, text in row.items() if text}
        for row in rows
    ] == HISTORY
    more = [*HISTORY, {"step": 30, "of_mine": 1.0}]
    assert columns_of(more) == [*columns, "of_mine"]
