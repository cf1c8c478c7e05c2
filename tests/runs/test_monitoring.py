"""What people look at while a model is trained."""

import importlib.util
import json
import struct
import sys

import keras
import numpy as np
import pytest
from tensorboard.backend.event_processing.plugin_event_accumulator import (
    EventAccumulator,
)
from tensorboard.util import tensor_util

import relative_attention as ra
from relative_attention.cli import main
from relative_attention.corpora.recipe_text import find_corpus
from relative_attention.runs.monitoring import PictureLog
from relative_attention.runs.monitoring import draw_curves
from relative_attention.runs.monitoring import monitoring_callbacks
from relative_attention.runs.prepare import prepare_data
from relative_attention.runs.run import build_model
from relative_attention.training import EventLog
from relative_attention.training import write_training_table


class Progress(keras.callbacks.Callback):
    """Counts steps and keeps the history, like `RunProgress`."""

    def __init__(self, step=0, history=()):
        super().__init__()
        self.step = step
        self.history = list(history)

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1

    def on_epoch_end(self, epoch, logs=None):
        self.history.append({"epoch": epoch + 1, "step": self.step, **logs})


class Snapshots(keras.callbacks.Callback):
    """Copies the variables of a model at the end of every epoch."""

    def __init__(self):
        super().__init__()
        self.values = []

    def on_epoch_end(self, epoch, logs=None):
        self.values.append([np.array(v) for v in self.model.variables])


class Run:
    """A small run, two steps an epoch."""

    def __init__(self, directory, corpus, recipe):
        self.directory = directory
        self.data = prepare_data(
            recipe, find_corpus(recipe.data, corpus), directory, print
        )
        self.batches = self.data.batches(256, 512, seed=1)
        keras.utils.set_random_seed(1)
        self.model = build_model(recipe, self.data, "float32")
        # A handful of steps: a graph would take longer to make than to run.
        self.model.run_eagerly = True
        self.lines = []
        self.before, self.after = Snapshots(), Snapshots()

    def fit(self, num_epochs, progress):
        callbacks = monitoring_callbacks(
            self.directory,
            self.data,
            4,
            lambda: progress.step,
            report=self.lines.append,
        )
        self.model.fit(
            self.batches.train.train_dataset(first_step=progress.step),
            steps_per_epoch=2,
            initial_epoch=len(progress.history),
            epochs=len(progress.history) + num_epochs,
            validation_data=self.batches.validation.evaluation_dataset(),
            callbacks=[self.before, *callbacks, self.after, progress],
            shuffle=False,
            verbose=0,
        )
        return progress


@pytest.fixture(scope="module")
def monitored(corpus, tmp_path_factory):
    """A run whose second epoch, its last, was undone and made again."""
    recipe = ra.Recipe.from_mapping(
        {
            "name": "monitored",
            "data": {
                "source": "train.en",
                "target": "train.de",
                "validation_source": "validation.en",
                "validation_target": "validation.de",
            },
            "vocabulary": {"size": 400},
            "model": {
                "preset": "transformer_tiny_relative",
                "num_encoder_layers": 1,
                "num_decoder_layers": 1,
                "hidden_dim": 16,
                "intermediate_dim": 32,
                "num_heads": 2,
                "max_relative_position": 3,
                "share_relations_across_heads": False,
            },
            "training": {"steps": 4, "warmup_steps": 3},
        }
    )
    run = Run(tmp_path_factory.mktemp("monitored"), corpus, recipe)
    before = run.fit(2, Progress())
    run.progress = run.fit(1, Progress(2, before.history[:1]))
    return run


def events(run, series):
    accumulator = EventAccumulator(str(run.directory / "logs" / series))
    accumulator.Reload()
    return {
        tag: {
            event.step: tensor_util.make_ndarray(event.tensor_proto)
            for event in accumulator.Tensors(tag)
        }
        for tag in accumulator.Tags()["tensors"]
    }, [
        event.step
        for event in accumulator.Tensors(accumulator.Tags()["tensors"][0])
    ]


def test_charts_go_on_by_step_after_a_crash(monitored):
    for series, names in (
        (
            "train",
            {
                "loss",
                "perplexity",
                "accuracy",
                "learning_rate",
                "gradient_norm",
                "skipped",
                "tokens_per_second",
            },
        ),
        ("validation", {"loss", "perplexity", "accuracy"}),
    ):
        charts, steps = events(monitored, series)
        assert steps == [2, 4]
        scalars = {name for name in charts if charts[name][4].shape == ()}
        assert scalars == names
        prefix = "val_" if series == "validation" else ""
        for record in monitored.progress.history:
            for name in names:
                assert charts[name][record["step"]] == pytest.approx(
                    record[prefix + name], rel=1e-6
                )


def test_rate_and_gradient_are_those_of_training(monitored):
    first, last = monitored.progress.history
    # Warmed up after three steps, of which this is the third.
    assert first["learning_rate"] == pytest.approx(16**-0.5 * 3**-0.5)
    assert last["learning_rate"] < first["learning_rate"]
    assert all(record["gradient_norm"] > 0 for record in (first, last))


def test_histograms_are_of_each_table_of_each_head(monitored):
    charts, _ = events(monitored, "train")
    tags = {tag for tag in charts if tag.startswith("relations/")}
    assert tags == {
        f"relations/{block}/{side}/head_{head}"
        for block in ("encoder_block_0", "decoder_block_0")
        for side in ("key", "value")
        for head in (0, 1)
    }
    layer = monitored.model.encoder_blocks[0].self_attention
    table = np.asarray(layer.key_relation_embeddings)[1]
    buckets = charts["relations/encoder_block_0/key/head_1"][4]
    assert buckets[0, 0] == pytest.approx(table.min())
    assert buckets[-1, 1] == pytest.approx(table.max())
    assert buckets[:, 2].sum() == table.size


def test_pictures_are_drawn_at_every_validation(monitored):
    assert monitored.lines == []
    charts, _ = events(monitored, "validation")
    pictures = {"attention", "relations/encoder", "relations/decoder"}
    for tag in pictures:
        assert list(charts[tag]) == [2, 4]
        width, height, png = charts[tag][4]
        assert png.startswith(b"\x89PNG")
        assert (int(width), int(height)) == struct.unpack(">II", png[16:24])
        # They change as the model does.
        assert charts[tag][2][2] != png


def test_samples_are_source_reference_and_translation(monitored):
    charts, _ = events(monitored, "validation")
    head, *rows = charts["samples"][4].tolist()
    assert head == [b"source", b"reference", b"hypothesis"]
    pairs = list(monitored.data.validation)[:5]
    plain = [[cell.decode().replace("\\", "") for cell in row] for row in rows]
    assert [tuple(row[:2]) for row in plain] == pairs
    translator = ra.Translator(
        monitored.model,
        monitored.data.target_vocabulary,
        num_beams=1,
        max_extra_length=20,
    )
    assert [row[2] for row in plain] == [
        text.replace("\\", "")
        for text in translator.translate([source for source, _ in pairs])
    ]


def monitor_once(run, directory, **arguments):
    """What the callbacks do at the end of an epoch; gives their names."""
    callbacks = monitoring_callbacks(
        directory,
        run.data,
        10,
        lambda: 8,
        report=run.lines.append,
        **arguments,
    )
    callback_list = keras.callbacks.CallbackList(callbacks, model=run.model)
    callback_list.on_train_begin()
    callback_list.on_epoch_begin(4)
    callback_list.on_epoch_end(4, {"loss": 1.0, "val_loss": 2.0})
    callback_list.on_train_end()
    return {type(callback).__name__ for callback in callbacks}


def test_monitoring_changes_nothing_of_the_model(monitored):
    assert len(monitored.before.values) == 3
    for before, after in zip(monitored.before.values, monitored.after.values):
        for value, expected in zip(after, before):
            np.testing.assert_array_equal(value, expected)


def test_pictures_and_samples_can_be_left_out(monitored, tmp_path):
    names = monitor_once(monitored, tmp_path, pictures=False)
    assert not {"PictureLog", "SampleLog"} & names
    assert {"ChartLog", "ProgressLine"} <= names
    assert monitored.lines == []


def test_picture_that_fails_is_reported_once_and_training_goes_on(
    monitored, tmp_path, monkeypatch
):
    def fail(*arguments):
        raise RuntimeError("no such font")

    monkeypatch.setattr(
        "relative_attention.runs.monitoring.relation_figure", fail
    )
    callback = PictureLog(
        EventLog(tmp_path), monitored.data, lambda: 8, monitored.lines.append
    )
    callback.set_model(monitored.model)
    callback.on_train_begin()
    for epoch in range(2):
        callback.on_epoch_end(epoch, {})
    [line] = monitored.lines
    monitored.lines.clear()
    assert "no longer drawn: RuntimeError: no such font" in line


@pytest.fixture
def without_matplotlib(monkeypatch):
    find_spec = importlib.util.find_spec

    def find(name, *arguments):
        return None if name == "matplotlib" else find_spec(name, *arguments)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)


def test_without_matplotlib_one_line_says_what_is_not_drawn(
    without_matplotlib, monitored, tmp_path
):
    lines = []
    callbacks = monitoring_callbacks(
        tmp_path, monitored.data, 6, lambda: 0, report=lines.append
    )
    [line] = lines
    assert "pictures of attention" in line
    assert "pip install '.[plot]'" in line
    assert "SampleLog" in [type(callback).__name__ for callback in callbacks]
    draw_curves(tmp_path, monitored.progress.history, lines.append)
    assert len(lines) == 2
    assert lines[1].startswith("curve.png is not drawn: Pictures need")
    assert not (tmp_path / "curve.png").exists()


def test_curves_are_drawn_at_the_end(monitored, tmp_path):
    draw_curves(tmp_path, monitored.progress.history, report=pytest.fail)
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["training.csv", "results.json"])
def test_plot_draws_curves_of_a_run_that_has_no_model_yet(
    name, monitored, tmp_path, capsys
):
    path = tmp_path / name
    if name == "training.csv":
        write_training_table(monitored.progress.history, path)
    else:
        history = monitored.progress.history
        path.write_text(json.dumps({"curve": history}))
    assert main(["plot", str(tmp_path)]) == 0
    curve = tmp_path / "curve.png"
    assert capsys.readouterr().out == f"{curve}\n"
    assert curve.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "must hold training.csv or results.json"),
        ({"training.csv": "step,loss\n"}, "not come to its first validation"),
        ({"training.csv": "step\n1,2\n"}, "line 2: must have a value"),
    ],
    ids=["empty", "too_early", "damaged_table"],
)
def test_plot_says_why_there_is_nothing_to_draw(
    files, message, tmp_path, capsys
):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    assert main(["plot", str(tmp_path)]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "curve.png").exists()
