"""What people look at while a model is trained."""

import importlib.util
import json
import shutil
import struct
import sys

import pytest
from tensorboard.backend.event_processing.plugin_event_accumulator import (
    EventAccumulator,
)
from tensorboard.util import tensor_util

import relative_attention as ra
from relative_attention.cli import main
from relative_attention.runs import monitoring
from relative_attention.runs.monitoring import draw_curves
from tests.runs.conftest import assert_same_arrays
from tests.runs.conftest import train_quickly
from tests.small_run import RECIPE

PICTURES = "training.pictures=true"


@pytest.fixture(scope="module")
def monitored(corpus, tmp_path_factory):
    """Folder of a quick run with pictures, and its validations."""
    output = tmp_path_factory.mktemp("monitored") / "run"
    lines = []
    recipe = ra.Recipe.from_mapping(RECIPE)
    train_quickly(recipe, output, corpus, PICTURES, report=lines.append)
    assert not any("drawn" in line for line in lines)
    return output, json.loads((output / "history.json").read_text())


def events(folder, series):
    """The values by tag and step."""
    accumulator = EventAccumulator(str(folder / "logs" / series))
    accumulator.Reload()
    return {
        tag: {
            event.step: tensor_util.make_ndarray(event.tensor_proto)
            for event in accumulator.Tensors(tag)
        }
        for tag in accumulator.Tags()["tensors"]
    }


@pytest.mark.large
def test_charts_equal_the_history(monitored):
    folder, history = monitored
    metrics = {"loss", "perplexity", "accuracy"}
    rates = {"learning_rate", "gradient_norm", "skipped", "tokens_per_second"}
    for series, names, prefix in (
        ("train", metrics | rates, ""),
        ("validation", metrics, "val_"),
    ):
        charts = events(folder, series)
        assert names == {tag for tag in charts if charts[tag][4].shape == ()}
        for record in history:
            for name in names:
                value = charts[name][record["step"]]
                assert value == pytest.approx(record[prefix + name], rel=1e-6)


@pytest.mark.large
def test_pictures_are_drawn_at_every_validation(monitored):
    charts = events(monitored[0], "validation")
    pictures = charts["attention"]
    assert list(pictures) == [2, 4]
    width, height, png = pictures[4]
    assert png.startswith(b"\x89PNG")
    assert (int(width), int(height)) == struct.unpack(">II", png[16:24])
    # They change as the model does.
    assert pictures[2][2] != png


@pytest.mark.large
def test_samples_are_source_reference_and_translation(monitored, corpus):
    folder, history = monitored
    # The model of the folder is the one of the best validation.
    step = min(history, key=lambda record: record["val_loss"])["step"]
    samples = events(folder, "validation")["samples"][step]
    head, *rows = samples.tolist()
    assert head == [b"source", b"reference", b"hypothesis"]
    sides = [
        (corpus / f"validation.{side}").read_text().splitlines()[:5]
        for side in ("en", "de")
    ]
    translator = ra.load_translator(folder, num_beams=1, max_extra_length=20)
    # The samples show what the model does, loops too.
    translator.source_language = None
    sides.append(translator.translate(sides[0]))
    for row, expected in zip(rows, zip(*sides), strict=True):
        plain = [cell.decode().replace("\\", "") for cell in row]
        assert plain == [text.replace("\\", "") for text in expected]


@pytest.mark.large
def test_monitoring_changes_nothing_of_the_model(monitored, quick_run):
    for name in ("model", "training"):
        path = f"checkpoints/step-00000004/{name}.safetensors"
        assert_same_arrays(monitored[0] / path, quick_run / path)


@pytest.mark.large
def test_training_continues_when_a_picture_fails(
    quickly, tmp_path, monkeypatch
):
    def fail(*arguments):
        raise RuntimeError("no such font")

    monkeypatch.setattr("relative_attention.runs.monitoring.model_figure", fail)
    lines = []
    results = quickly(tmp_path / "run", PICTURES, report=lines.append)
    assert results["steps"] == 4
    (line,) = [line for line in lines if "drawn" in line]
    assert "no longer drawn: RuntimeError: no such font" in line


@pytest.mark.large
def test_without_matplotlib_one_line_says_what_is_not_drawn(
    quickly, tmp_path, monkeypatch
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
    lines = []
    overrides = (PICTURES, "training.steps=1")
    quickly(tmp_path / "run", *overrides, report=lines.append)
    (line,) = [line for line in lines if "drawn" in line]
    assert "pictures of attention" in line
    assert "pip install '.[plot]'" in line
    lines.clear()
    draw_curves(tmp_path, [{"step": 2, "loss": 1.0}], lines.append)
    (line,) = lines
    assert line.startswith("curve.png is not drawn: Pictures need")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "must hold history.json or results.json"),
        ({"history.json": "[]"}, "not come to its first validation"),
    ],
    ids=["empty", "too_early"],
)
def test_plot_is_refused_without_a_curve(files, message, tmp_path, capsys):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    assert main(["plot", str(tmp_path)]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "curve.png").exists()


# === BLEU that can rise ===


@pytest.fixture
def quickly_into(corpus, tmp_path):
    """`quickly_into(convert, ...)` trains on targets that `convert` makes."""
    texts = shutil.copytree(corpus, tmp_path / "texts")

    def train(convert, *overrides, **arguments):
        for path in texts.glob("*.de"):
            lines = map(convert, path.read_text().splitlines())
            path.write_text("".join(f"{line}\n" for line in lines))
        recipe = ra.Recipe.from_mapping(RECIPE)
        overrides = ("training.bleu_every=1", *overrides)
        return train_quickly(
            recipe, tmp_path / "run", texts, *overrides, **arguments
        )

    return train


@pytest.mark.large
def test_chinese_is_scored_by_its_tokenizer(quickly_into):
    lines = []
    quickly_into(
        lambda line: "".join(chr(0x4E00 + ord(c) % 97) for c in line),
        "data.target_language=null",
        "training.best_by=bleu",
        report=lines.append,
    )
    assert "BLEU: of the tokens of zh" in lines


@pytest.mark.large
def test_validation_has_the_limits_of_the_recipe(quickly_into, monkeypatch):
    made = []

    class Seen(ra.Translator):
        def __init__(self, *arguments, **settings):
            super().__init__(*arguments, **settings)
            made.append(self.decoding)

    monkeypatch.setattr(monitoring, "Translator", Seen)
    quickly_into(
        str.lower,
        "decoding.max_source_length=9",
        "decoding.max_extra_length=3",
        "decoding.no_repeat_ngram=4",
        "training.pictures=false",
    )
    (found,) = made
    assert found.max_source_length == 9
    assert (found.max_extra_length, found.no_repeat_ngram) == (3, 4)


def test_best_by_bleu_is_refused_when_bleu_cannot_rise(quickly_into):
    with pytest.raises(ra.InputError, match="0 even for a perfect translation"):
        quickly_into(lambda line: line[:2], "training.best_by=bleu")
