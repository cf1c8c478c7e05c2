"""Training runs: what they leave, and how they are resumed."""

import json
import os
import shutil
import signal
import types
import zlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import relative_attention as ra
from relative_attention.corpora.recipe_text import find_corpus
from relative_attention.models import Transformer
from relative_attention.models.weights import load_arrays
from relative_attention.runs import run as training_run
from relative_attention.runs.cluster import Cluster
from relative_attention.runs.prepare import prepare_data
from relative_attention.runs.report import score_corpus
from relative_attention.runs.run import build_model
from relative_attention.runs.run_directory import claim_run_directory
from relative_attention.training import read_training_table
from tests.runs.conftest import train_quickly

MODEL = "model.safetensors"
NO_DROPOUT = (
    "model.dropout=0.0",
    "model.attention_dropout=0.0",
    "model.intermediate_dropout=0.0",
)


def train_small(recipe, output, corpus, *overrides, **arguments):
    return ra.train(
        recipe.override(overrides), output, data_directory=corpus, **arguments
    )


def history_of(folder):
    return json.loads((folder / "history.json").read_text())


def checkpoints_of(folder):
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def assert_same_weights(folder, expected, step):
    name = f"checkpoints/step-{step:08}/{MODEL}"
    expected = load_arrays(expected / name)
    arrays = load_arrays(folder / name)
    assert arrays.keys() == expected.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, expected[name], err_msg=name)


# === A finished run ===


def test_directory_has_all_a_model_needs(trained):
    names = {path.name for path in trained.iterdir()}
    assert {
        "config.json",
        "model.safetensors",
        "vocabulary.model",
        "recipe.yaml",
        "results.json",
        "checkpoints",
        "logs",
    } <= names
    assert any((trained / "logs").rglob("events*"))


def test_results_have_curve_scores_and_origin(trained):
    results = json.loads((trained / "results.json").read_text())
    assert [epoch["step"] for epoch in results["curve"]] == [4, 8, 12]
    for epoch in results["curve"]:
        assert {"val_loss", "val_perplexity", "val_accuracy"} <= epoch.keys()
    assert ["val_bleu" in epoch for epoch in results["curve"]] == [
        False,
        True,
        False,
    ]
    assert "tok:13a" in results["scores"]["test"]["bleu_signature"]
    assert "case:lc" in results["scores"]["test"]["bleu_lowercased_signature"]
    for scores in results["scores"].values():
        assert "tok:moses-de" in scores["bleu_moses_lowercased_signature"]
    assert results["seed"] == 1
    assert results["hardware"]
    assert results["precision"] == "float32"


def test_results_have_moses_bleu_where_the_language_is_given(
    trained, monkeypatch
):
    lines = ["eins Zwei drei vier, fünf.", "sechs sieben acht neun zehn"]
    references = [line.lower() for line in lines]
    monkeypatch.setattr(
        ra.Translator, "translate", lambda self, sources: list(lines)
    )
    translator = ra.load_translator(trained)
    pairs = list(zip(["one", "two"], references))
    assert score_corpus(translator, pairs).keys() == {
        "bleu",
        "bleu_signature",
        "bleu_lowercased",
        "bleu_lowercased_signature",
    }
    scores = score_corpus(translator, pairs, "de")
    assert scores["bleu"] < scores["bleu_moses_lowercased"] == 100
    assert (
        "case:lc|eff:no|tok:moses-de"
        in (scores["bleu_moses_lowercased_signature"])
    )


def test_finished_model_is_the_one_with_the_best_validation_loss(trained):
    best = min(history_of(trained), key=lambda epoch: epoch["val_loss"])
    checkpoint = trained / "checkpoints" / f"step-{best['step']:08}"
    arrays = load_arrays(trained / MODEL)
    assert (trained / "best.safetensors").read_bytes() == (
        trained / MODEL
    ).read_bytes()
    expected = load_arrays(checkpoint / MODEL)
    assert arrays.keys() == expected.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, expected[name])


def test_overwriting_knows_every_file_of_a_finished_run(
    trained, recipe, tmp_path
):
    output = shutil.copytree(trained, tmp_path / "run")
    claim_run_directory(output, recipe, overwrite=True)
    assert sorted(path.name for path in output.iterdir()) == [
        "recipe.yaml",
        "run.json",
    ]


# === Going on ===


def test_resumed_run_equals_uninterrupted_run(quickly, quick_run, tmp_path):
    output = tmp_path / "run"
    # Between two validations, and with fewer checkpoints kept from then on.
    assert quickly(output, "training.steps=3")["steps"] == 3
    assert checkpoints_of(output) == ["step-00000002", "step-00000003"]
    quickly(output, "training.keep_checkpoints=2", resume=True)
    assert checkpoints_of(output) == ["step-00000003", "step-00000004"]
    assert_same_weights(output, quick_run, 4)
    before, after = history_of(quick_run), history_of(output)
    assert [epoch["step"] for epoch in after] == [2, 3, 4]
    assert after[-1]["val_loss"] == before[-1]["val_loss"]
    assert read_training_table(output / "training.csv") == after
    seconds = [epoch["seconds"] for epoch in after]
    assert seconds == sorted(seconds)


@pytest.mark.large
@pytest.mark.parametrize("steps", [4, 6])
def test_resumed_run_of_graphs_equals_uninterrupted_run(
    steps, trained, recipe, corpus, tmp_path
):
    output = tmp_path / "run"
    results = train_small(recipe, output, corpus, f"training.steps={steps}")
    assert results["steps"] == steps
    assert not (output / "checkpoints" / "step-00000012").exists()
    train_small(recipe, output, corpus, resume=True)
    assert_same_weights(output, trained, 12)
    before, after = history_of(trained), history_of(output)
    assert after[-1]["val_loss"] == before[-1]["val_loss"]


def test_time_limit_is_kept_to_when_a_run_goes_on(quickly, quick_run, tmp_path):
    output = shutil.copytree(quick_run, tmp_path / "run")
    overrides = ("training.steps=40", "training.minutes=1e-6")
    assert quickly(output, *overrides, resume=True)["steps"] == 4
    assert_same_weights(output, quick_run, 4)


def test_finished_model_is_the_average_when_asked(quickly, quick_run, tmp_path):
    output = shutil.copytree(quick_run, tmp_path / "run")
    quickly(output, "training.average_last=2", resume=True)
    parts = [
        load_arrays(output / "checkpoints" / name / MODEL)
        for name in ("step-00000002", "step-00000004")
    ]
    for name, array in load_arrays(output / MODEL).items():
        mean = (parts[0][name].astype("float64") + parts[1][name]) / 2
        np.testing.assert_allclose(array, mean, atol=1e-7)
    # And the best by validation when no longer asked.
    quickly(output, "training.average_last=0", resume=True)
    best = load_arrays(output / "best.safetensors")
    for name, array in load_arrays(output / MODEL).items():
        np.testing.assert_array_equal(array, best[name])


@pytest.mark.large
def test_early_stopping_ends_a_run_that_learns_nothing(quickly, tmp_path):
    results = quickly(
        tmp_path / "run",
        # No weight changes by so little, so no validation is better.
        "training.learning_rate_scale=1e-30",
        "training.early_stopping=2",
        "training.steps=40",
    )
    assert results["steps"] == 6


def test_overwriting_starts_anew(quickly, quick_run, tmp_path):
    output = shutil.copytree(quick_run, tmp_path / "run")
    results = quickly(output, "training.steps=1", overwrite=True)
    assert results["steps"] == 1
    assert checkpoints_of(output) == ["step-00000001"]


class Terminator(keras.callbacks.Callback):
    """Sends SIGTERM in the midst of the first validation."""

    def on_test_batch_begin(self, batch, logs=None):
        os.kill(os.getpid(), signal.SIGTERM)


def test_run_told_to_stop_while_validating_goes_on_with_that(
    quickly, quick_run, tmp_path, monkeypatch
):
    output = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(
            training_run,
            "monitoring_callbacks",
            lambda *args, **kwargs: [Terminator()],
        )
        with pytest.raises(SystemExit) as stop:
            quickly(output)
    assert stop.value.code == 128 + signal.SIGTERM
    assert checkpoints_of(output) == ["stop-00000002"]
    quickly(output, resume=True)
    assert checkpoints_of(output) == checkpoints_of(quick_run)
    before, after = history_of(quick_run), history_of(output)
    for name in ("step", "loss", "val_loss"):
        assert [epoch[name] for epoch in before] == [
            epoch[name] for epoch in after
        ]
    assert_same_weights(output, quick_run, 4)


EPOCH = "training.validate_every=4"


class StopAt(keras.callbacks.Callback):
    """Sends SIGTERM before the update with this number."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def on_train_batch_begin(self, batch, logs=None):
        if batch + 1 == self.number:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture
def stopped(quickly, tmp_path, monkeypatch):
    """A run that was stopped after three of the four updates of an epoch."""
    with monkeypatch.context() as patch:
        patch.setattr(
            training_run, "monitoring_callbacks", lambda *_, **__: [StopAt(3)]
        )
        with pytest.raises(SystemExit):
            quickly(tmp_path / "run", EPOCH)
    assert checkpoints_of(tmp_path / "run") == ["stop-00000003"]
    return tmp_path / "run"


def change_state(checkpoint, change):
    """Changes the state of a checkpoint as an earlier version had it."""
    path = checkpoint / "state.json"
    content = json.loads(path.read_text())
    change(content["state"])
    state = json.dumps(content["state"]).encode()
    content["state_checksum"] = zlib.crc32(state)
    path.write_text(json.dumps(content))


def sums_of(record):
    """What a record says of the updates, whatever time they took."""
    times = ("seconds", "tokens_per_second")
    return {name: record[name] for name in record if name not in times}


def test_record_of_a_resumed_epoch_is_that_of_the_whole(
    quickly, stopped, tmp_path
):
    quickly(tmp_path / "whole", EPOCH)
    quickly(stopped, EPOCH, resume=True)
    (whole,), (resumed,) = history_of(tmp_path / "whole"), history_of(stopped)
    assert sums_of(resumed) == sums_of(whole)
    assert resumed.keys() == whole.keys()
    assert read_training_table(stopped / "training.csv") == [resumed]


def test_run_of_an_earlier_version_is_resumed_with_a_warning(quickly, stopped):
    def change(state):
        del state["sums"], state["logs"]
        del state["run"]["train_ids"], state["run"]["validation_ids"]

    change_state(stopped / "checkpoints" / "stop-00000003", change)
    lines = []
    quickly(stopped, EPOCH, resume=True, report=lines.append)
    (line,) = [line for line in lines if "earlier version" in line]
    assert "no checksum of the texts" in line
    assert "no sums of the epoch" in line
    # From now on they are there.
    lines.clear()
    quickly(
        stopped, EPOCH, "training.steps=5", resume=True, report=lines.append
    )
    assert not [line for line in lines if "earlier version" in line]


# === The texts of a resumed run ===


def move_first_line(path):
    first, *others = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*others, first]))


def test_text_in_another_order_is_refused_and_a_copy_is_not(
    recipe, corpus, tmp_path
):
    texts = shutil.copytree(corpus, tmp_path / "texts")
    output = tmp_path / "run"
    train_quickly(recipe, output, texts, "training.steps=2")
    for name, message in (
        ("train.en", "The text to train on"),
        ("validation.de", "The validation text"),
    ):
        whole = (texts / name).read_text()
        move_first_line(texts / name)
        with pytest.raises(ra.InputError, match=f"{message}.* started with"):
            train_quickly(recipe, output, texts, resume=True)
        # A file of another time, with the same text.
        (texts / name).write_text(whole)
    assert checkpoints_of(output) == ["step-00000002"]
    texts.rename(tmp_path / "moved")
    results = train_quickly(recipe, output, tmp_path / "moved", resume=True)
    assert results["steps"] == 4


# === Updates ===


def test_parts_of_an_update_are_as_large_as_a_device_takes(
    recipe, corpus, tmp_path
):
    recipe = recipe.override(
        ["training.batch_tokens=300", "training.effective_batch_tokens=512"]
    )
    files = find_corpus(recipe.data, corpus)
    data = prepare_data(recipe, files, tmp_path, lambda line: None)
    lines = []
    run = training_run.TrainingRun(
        recipe,
        data,
        Cluster(tf.distribute.get_strategy()),
        "float32",
        tmp_path,
        lines.append,
    )
    run.prepare()
    assert run.batches.train.batch_tokens == 512
    assert run.batches.validation.batch_tokens == 300
    assert run.model.accumulation_steps == 2
    assert "512 tokens on 1 device, each in 2 parts" in lines[-1]


@pytest.mark.large
def test_update_taken_in_parts_is_the_same(quickly, tmp_path):
    quickly(
        tmp_path / "run",
        "training.batch_tokens=300",
        "training.effective_batch_tokens=512",
        "training.steps=1",
        *NO_DROPOUT,
    )
    quickly(tmp_path / "whole", "training.steps=1", *NO_DROPOUT)
    arrays, expected = (
        load_arrays(tmp_path / name / "checkpoints/step-00000001" / MODEL)
        for name in ("run", "whole")
    )
    for name, array in arrays.items():
        np.testing.assert_allclose(
            array, expected[name], rtol=0, atol=1e-6, err_msg=name
        )


def test_loss_that_is_not_finite_stops_the_run_and_says_where(
    quickly, tmp_path
):
    output = tmp_path / "run"
    overrides = (
        "training.learning_rate_scale=1e35",
        "training.save_every=1",
        "training.steps=2",
    )
    with pytest.raises(ra.InputError) as error:
        quickly(output, *overrides)
    message = str(error.value)
    assert "update 2 is not finite (learning rate" in message
    lines = message.split("lines ")[1].split(" ")
    assert 1 <= int(lines[0].rstrip(",")) <= 300
    assert "on_nonfinite=skip" in message
    for path in output.rglob("*.safetensors"):
        for name, array in load_arrays(path).items():
            assert np.isfinite(array).all(), (path, name)
    # Skipping takes it to its end, where no validation knows a best model.
    with pytest.raises(ra.InputError, match="No validation had a finite loss"):
        quickly(output, *overrides, "training.on_nonfinite=skip", resume=True)
    assert (output / "checkpoints" / "step-00000002").exists()


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_learns_as_float32_does(
    precision, recipe, corpus, tmp_path
):
    overrides = (
        "training.steps=300",
        "training.validate_every=100",
        "training.bleu_every=0",
        "training.warmup_steps=100",
    )
    losses = {}
    for name in ("float32", precision):
        output = tmp_path / name
        train_small(
            recipe, output, corpus, *overrides, f"training.precision={name}"
        )
        history = history_of(output)
        losses[name] = history[-1]["loss"]
        assert history[-1]["loss"] < history[0]["loss"] - 0.5
    assert losses[precision] == pytest.approx(losses["float32"], rel=0.01)


# === The texts ===


@pytest.mark.large
def test_text_is_held_out_when_there_is_no_validation_text(
    recipe, corpus, tmp_path
):
    output = tmp_path / "run"
    results = train_small(
        recipe,
        output,
        corpus,
        "data.validation_source=null",
        "data.validation_target=null",
        "training.steps=4",
    )
    parts = [
        list(
            ra.ParallelCorpus(
                output / "cache" / "held_out" / f"{part}.source",
                output / "cache" / "held_out" / f"{part}.target",
            )
        )
        for part in ("train", "validation")
    ]
    whole = list(ra.ParallelCorpus(corpus / "train.en", corpus / "train.de"))
    assert len(parts[1]) == 30
    assert sorted(parts[0] + parts[1]) == sorted(whole)
    assert set(results["scores"]) == {"validation", "test"}


@pytest.mark.large
def test_separate_vocabularies_make_a_model_that_translates(quickly, tmp_path):
    output = tmp_path / "run"
    quickly(
        output,
        "vocabulary.joint=false",
        "vocabulary.size=350",
        "training.steps=1",
    )
    translator = ra.load_translator(output)
    assert translator.vocabulary is not translator.source_vocabulary
    assert isinstance(translator.translate(["he paid ten euros."])[0], str)


VOCABULARY = ["<pad>", "</s>", "a", "b", "c"]
RATE = 0.5


def optimizer_of(recipe, *overrides):
    """The optimizer that a recipe trains with, at a fixed learning rate."""
    data = types.SimpleNamespace(
        is_joint=True,
        source_vocabulary=VOCABULARY,
        target_vocabulary=VOCABULARY,
    )
    model = build_model(recipe.override(overrides), data, "float32")
    assert isinstance(model, Transformer)
    config = model.optimizer.get_config()
    config["learning_rate"] = RATE
    return ra.AveragingAdam.from_config(config)


def updated(weights, gradients, clip, epsilon, beta_2=0.98):
    """Plain formulas in float64: fairseq's clipping, then Kingma and Ba's Adam.

    The epsilon is that of the end of their section 2.
    """
    beta_1 = 0.9
    means = [np.zeros_like(weight) for weight in weights]
    squares = [np.zeros_like(weight) for weight in weights]
    for step, gradient in enumerate(gradients, 1):
        norm = np.sqrt(sum((part**2).sum() for part in gradient))
        factor = min(1.0, clip / norm)
        rate = RATE * np.sqrt(1 - beta_2**step) / (1 - beta_1**step)
        for number, part in enumerate(gradient):
            part = part * factor
            means[number] = beta_1 * means[number] + (1 - beta_1) * part
            squares[number] = beta_2 * squares[number] + (1 - beta_2) * part**2
            weights[number] = weights[number] - rate * means[number] / (
                np.sqrt(squares[number]) + epsilon
            )
    return weights


@pytest.mark.parametrize("epsilon", [1e-9, 1e-2], ids=str)
def test_clip_and_epsilon_are_those_of_the_formulas(epsilon, recipe):
    random = np.random.default_rng(1)
    weights = [random.normal(size=shape) for shape in ((2, 3), (5,))]
    # The first is shorter than the limit, the second longer.
    gradients = [
        [scale * random.normal(size=weight.shape) for weight in weights]
        for scale in (0.01, 1.0)
    ]
    optimizer = optimizer_of(
        recipe, "training.gradient_clip=0.5", f"training.adam_epsilon={epsilon}"
    )
    variables = [keras.Variable(weight) for weight in weights]
    for gradient in gradients:
        optimizer.apply(
            [keras.ops.array(g, "float32") for g in gradient], variables
        )
    expected = updated(weights, gradients, 0.5, epsilon)
    for variable, weight in zip(variables, expected):
        np.testing.assert_allclose(variable.numpy(), weight, atol=1e-5)


def test_without_a_limit_no_gradient_is_clipped(recipe):
    assert optimizer_of(recipe).global_clipnorm is None
    assert optimizer_of(recipe).epsilon == 1e-9
