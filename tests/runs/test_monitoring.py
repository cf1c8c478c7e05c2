"""What people look at while a model is trained."""

import importlib.util
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
from relative_attention.runs.monitoring import draw_curves
from relative_attention.runs.monitoring import monitoring_callbacks
from relative_attention.runs.prepare import find_inputs
from relative_attention.runs.prepare import prepare_data
from relative_attention.runs.run import build_model
from tests.small_run import RECIPE


class Progress(keras.callbacks.Callback):
    """Counts steps and keeps records, like `RunProgress`."""

    total_steps = 4
    resumed_logs = {}
    step = 0

    def __init__(self):
        super().__init__()
        self.records = []

    def seconds_left(self):
        return None

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1

    def on_epoch_end(self, epoch, logs=None):
        self.records.append({"epoch": epoch + 1, "step": self.step, **logs})


class Monitored:
    """A run of two epochs of two steps, and what was shown of it."""

    def __init__(self, directory, corpus):
        recipe = ra.Recipe.from_mapping(RECIPE)
        inputs = find_inputs(recipe, directory, corpus)
        self.directory = directory
        self.data = prepare_data(recipe, inputs, directory, print)
        self.model = build_model(recipe, self.data, "float32")
        # A handful of steps: a graph would take longer to make than to run.
        self.model.run_eagerly = True
        self.lines = []
        self.progress = Progress()
        self.before, self.after = [], []
        train, validation = self.data.batches(256, 512, seed=1)
        self.model.fit(
            train.train_dataset(),
            steps_per_epoch=2,
            epochs=2,
            validation_data=validation.evaluation_dataset(),
            callbacks=[
                self.snapshots(self.before),
                *self.callbacks(directory),
                self.snapshots(self.after),
                self.progress,
            ],
            shuffle=False,
            verbose=0,
        )

    def snapshots(self, values):
        return keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: values.append(
                [np.array(variable) for variable in self.model.variables]
            )
        )

    def callbacks(self, directory, **arguments):
        return monitoring_callbacks(
            directory,
            self.data,
            self.progress,
            report=self.lines.append,
            **arguments,
        )

    def ends_epochs(self, callback, number):
        """Calls a callback as `fit` does; gives what it reports."""
        callback.set_model(self.model)
        callback.on_train_begin()
        for epoch in range(number):
            callback.on_epoch_end(epoch, {})
        lines = list(self.lines)
        self.lines.clear()
        return lines

    def events(self, series):
        accumulator = EventAccumulator(str(self.directory / "logs" / series))
        accumulator.Reload()
        return {
            tag: {
                event.step: tensor_util.make_ndarray(event.tensor_proto)
                for event in accumulator.Tensors(tag)
            }
            for tag in accumulator.Tags()["tensors"]
        }


@pytest.fixture(scope="module")
def monitored(corpus, tmp_path_factory):
    return Monitored(tmp_path_factory.mktemp("monitored"), corpus)


def test_charts_are_those_of_the_records(monitored):
    metrics = {"loss", "perplexity", "accuracy"}
    rates = {"learning_rate", "gradient_norm", "skipped", "tokens_per_second"}
    for series, names, prefix in (
        ("train", metrics | rates, ""),
        ("validation", metrics, "val_"),
    ):
        charts = monitored.events(series)
        assert names == {tag for tag in charts if charts[tag][4].shape == ()}
        for record in monitored.progress.records:
            for name in names:
                value = charts[name][record["step"]]
                assert value == pytest.approx(record[prefix + name], rel=1e-6)


def test_pictures_are_drawn_at_every_validation(monitored):
    assert monitored.lines == []
    charts = monitored.events("validation")
    for tag in ("attention", "relations/encoder", "relations/decoder"):
        assert list(charts[tag]) == [2, 4]
        width, height, png = charts[tag][4]
        assert png.startswith(b"\x89PNG")
        assert (int(width), int(height)) == struct.unpack(">II", png[16:24])
        # They change as the model does.
        assert charts[tag][2][2] != png


def test_samples_are_source_reference_and_translation(monitored):
    head, *rows = monitored.events("validation")["samples"][4].tolist()
    assert head == [b"source", b"reference", b"hypothesis"]
    pairs = list(monitored.data.validation)[:5]
    translator = ra.Translator(
        monitored.model,
        monitored.data.target_vocabulary,
        num_beams=1,
        max_extra_length=20,
    )
    found = translator.translate([source for source, _ in pairs])
    for row, pair, text in zip(rows, pairs, found, strict=True):
        plain = [cell.decode().replace("\\", "") for cell in row]
        assert plain == [*pair, text.replace("\\", "")]


def test_monitoring_changes_nothing_of_the_model(monitored):
    assert len(monitored.before) == 2
    for before, after in zip(monitored.before, monitored.after):
        for value, expected in zip(after, before):
            np.testing.assert_array_equal(value, expected)


def test_picture_that_fails_is_reported_once_and_training_goes_on(
    monitored, tmp_path, monkeypatch
):
    def fail(*arguments):
        raise RuntimeError("no such font")

    monkeypatch.setattr(
        "relative_attention.runs.monitoring.relation_figure", fail
    )
    pictures = monitored.callbacks(tmp_path)[-1]
    [line] = monitored.ends_epochs(pictures, 2)
    assert "no longer drawn: RuntimeError: no such font" in line


def test_without_matplotlib_one_line_says_what_is_not_drawn(
    monitored, tmp_path, monkeypatch
):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: (
            None if name == "matplotlib" else find_spec(name, *rest)
        ),
    )
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    pictures = monitored.callbacks(tmp_path)[-1]
    [line] = monitored.ends_epochs(pictures, 1)
    assert "pictures of attention" in line
    assert "pip install '.[plot]'" in line
    lines = []
    draw_curves(tmp_path, monitored.progress.records, lines.append)
    [line] = lines
    assert line.startswith("curve.png is not drawn: Pictures need")


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
