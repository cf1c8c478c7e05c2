"""Training runs: what they leave, and how they are resumed."""

import csv
import json
import math
import os
import shutil
import signal

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.models.weights import load_arrays
from relative_attention.models.weights import load_weights
from relative_attention.runs import run as training_run
from relative_attention.runs.run import compile_model
from relative_attention.runs.run import learning_rate_of
from tests.runs.conftest import NO_DROPOUT
from tests.runs.conftest import assert_same_arrays
from tests.runs.conftest import train_quickly

MODEL = "model.safetensors"


def history_of(folder):
    return json.loads((folder / "history.json").read_text())


def table_of(folder):
    with open(folder / "training.csv", newline="") as file:
        return [
            {name: float(text) for name, text in row.items() if text}
            for row in csv.DictReader(file)
        ]


def checkpoints_of(folder):
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def checkpoint_of(folder, step):
    return folder / f"checkpoints/step-{step:08}" / MODEL


# === A finished run ===


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


def test_finished_model_is_the_one_with_the_best_validation_loss(trained):
    best = min(history_of(trained), key=lambda epoch: epoch["val_loss"])
    assert_same_arrays(trained / MODEL, checkpoint_of(trained, best["step"]))
    assert (trained / "best.safetensors").read_bytes() == (
        trained / MODEL
    ).read_bytes()


@pytest.mark.large
def test_weights_of_a_checkpoint_are_loaded_by_their_step(
    quick_run, run, corpus
):
    saved, finished = (
        ra.load_translator(quick_run, checkpoint=step) for step in (2, None)
    )
    load_weights(finished.model.weights, checkpoint_of(quick_run, 2))
    for weight, other in zip(saved.model.weights, finished.model.weights):
        np.testing.assert_array_equal(weight.numpy(), other.numpy())
    line = b"he paid ten euros.\n"
    status, out, _ = run(
        "translate", quick_run, "--checkpoint", 2, "--max-length", 9, stdin=line
    )
    assert status == 0
    saved.max_length = 9
    assert saved.translate([line.decode()]) == out.splitlines()
    texts = ("--source", corpus / "test.en", "--reference", corpus / "test.de")
    kept = "step-00000002, step-00000004"
    for more, message in (
        ([3], f"kept its weights: {kept}. Received: 3."),
        ([2, "--engine", "ctranslate2"], "leave out `engine`"),
    ):
        status, out, err = run(
            "evaluate", quick_run, *texts, "--checkpoint", *more
        )
        assert (status, out) == (1, "") and message in err


# === Resuming ===


def test_resumed_run_equals_uninterrupted_run(quickly, quick_run, tmp_path):
    output = tmp_path / "run"
    # Between two validations, and with fewer checkpoints kept from then on.
    assert quickly(output, "training.steps=3")["steps"] == 3
    assert checkpoints_of(output) == ["step-00000002", "step-00000003"]
    # What a crash undid is no history.
    (output / "history.json").write_text("[1, 2]")
    lines = []
    overrides = ("training.keep_checkpoints=2",)
    quickly(output, *overrides, resume=True, report=lines.append)
    assert "resuming after update 3" in lines
    assert checkpoints_of(output) == ["step-00000003", "step-00000004"]
    assert_same_arrays(checkpoint_of(output, 4), checkpoint_of(quick_run, 4))
    before, after = history_of(quick_run), history_of(output)
    assert [epoch["step"] for epoch in after] == [2, 3, 4]
    assert after[-1]["val_loss"] == before[-1]["val_loss"]
    assert table_of(output) == after
    seconds = [epoch["seconds"] for epoch in after]
    assert seconds == sorted(seconds)


@pytest.mark.large
def test_time_limit_ends_training_in_a_round(quickly, tmp_path):
    overrides = ("training.steps=40", "training.validate_every=40")
    results = quickly(tmp_path / "run", *overrides, "training.minutes=1e-6")
    assert [epoch["step"] for epoch in results["curve"]] == [1]
    assert math.isfinite(results["curve"][0]["val_loss"])
    assert checkpoints_of(tmp_path / "run") == ["step-00000001"]
    # The time that a run has taken counts when it is resumed.
    overrides = ("training.validate_every=40", "training.minutes=1e-6")
    lines = []
    arguments = {"resume": True, "report": lines.append}
    curve = quickly(tmp_path / "run", *overrides, **arguments)["curve"]
    assert [epoch["step"] for epoch in curve] == [1]
    assert any(
        line.startswith("no update is left to train: the time is up")
        for line in lines
    )
    overrides = ("training.validate_every=40", "training.minutes=60")
    curve = quickly(tmp_path / "run", *overrides, resume=True)["curve"]
    assert [epoch["step"] for epoch in curve] == [1, 4]


def test_overwriting_starts_again(quickly, copy):
    results = quickly(copy, "training.steps=1", overwrite=True)
    assert results["steps"] == 1
    assert checkpoints_of(copy) == ["step-00000001"]


def test_old_run_is_kept_when_no_vocabulary_can_be_learned(quickly, copy):
    before = {path.name: path.stat().st_mtime_ns for path in copy.iterdir()}
    with pytest.raises(ra.InputError, match="No vocabulary of 20 pieces"):
        quickly(copy, "vocabulary.size=20", overwrite=True)
    names = {path.name: path.stat().st_mtime_ns for path in copy.iterdir()}
    assert names == before
    assert [path for path in copy.parent.iterdir()] == [copy]


def told_to_stop(moment):
    """Sends SIGTERM in the first validation, after it, or before an update."""

    def tell(at):
        if at == moment:
            os.kill(os.getpid(), signal.SIGTERM)

    return keras.callbacks.LambdaCallback(
        on_train_batch_begin=lambda batch, logs: tell(batch + 1),
        on_test_batch_begin=lambda batch, logs: tell("in validation"),
        on_epoch_end=lambda epoch, logs: tell("after validation"),
    )


@pytest.fixture
def stop(quickly, tmp_path, monkeypatch):
    """`stop(moment, ...)`: a run that was told to stop at this update."""

    def stop(moment, *overrides, **arguments):
        with monkeypatch.context() as patch:
            patch.setattr(
                training_run,
                "monitoring_callbacks",
                lambda *_, **__: [told_to_stop(moment)],
            )
            with pytest.raises(SystemExit) as raised:
                quickly(tmp_path / "run", *overrides, **arguments)
        assert raised.value.code == 128 + signal.SIGTERM
        return tmp_path / "run"

    return stop


@pytest.mark.large
def test_run_stopped_in_validation_resumes_with_it(quickly, quick_run, stop):
    output = stop("in validation")
    assert checkpoints_of(output) == ["stop-00000002"]
    quickly(output, resume=True)
    # The checkpoint of the validation takes the place of the other.
    assert checkpoints_of(output) == checkpoints_of(quick_run)
    for before, after in zip(history_of(quick_run), history_of(output)):
        for name in ("step", "loss", "val_loss"):
            assert before[name] == after[name]
    assert_same_arrays(checkpoint_of(output, 4), checkpoint_of(quick_run, 4))


def test_run_stopped_after_validation_says_it_is_saved(stop):
    lines = []
    output = stop("after validation", report=lines.append)
    assert lines[-1].startswith("told to stop: saved after update 2")
    assert checkpoints_of(output) == ["step-00000002"]


EPOCH = "training.validate_every=4"


@pytest.mark.large
def test_record_of_a_resumed_round_covers_all_of_it(quickly, stop, tmp_path):
    overrides = (EPOCH, "training.steps=6")
    quickly(tmp_path / "whole", *overrides)
    output = stop(3, *overrides)
    assert checkpoints_of(output) == ["stop-00000003"]
    quickly(output, *overrides, resume=True)
    before, after = history_of(tmp_path / "whole"), history_of(output)
    # The next validation comes when it would have come, too.
    for whole, resumed in zip(before, after, strict=True):
        assert resumed.keys() == whole.keys()
        for name in resumed.keys() - {"seconds", "tokens_per_second"}:
            assert resumed[name] == whole[name]
    assert table_of(output) == after


@pytest.mark.large
def test_run_with_fewer_updates_than_it_made_validates_and_ends(quickly, stop):
    output = stop(3, EPOCH)
    lines = []
    arguments = {"resume": True, "report": lines.append}
    results = quickly(output, EPOCH, "training.steps=2", **arguments)
    assert [epoch["step"] for epoch in results["curve"]] == [3]
    assert math.isfinite(results["curve"][0]["val_loss"])
    assert any("3 were made, and the run has 2" in line for line in lines)


def test_run_stopped_before_first_validation_names_a_way_out(stop, run):
    output = stop(1)
    for words in (("translate", output), ("average", output)):
        status, _, err = run(*words, stdin=b"ten\n")
        assert status == 1
        line = err.splitlines()[-1]
        assert line.startswith("relative-attention: ")
        assert "has not come to its first validation" in line
        assert "saved checkpoints/stop-00000001 so far" in line
        assert f"relative-attention train --resume {output}" in line


def test_changed_text_is_refused_when_resumed(recipe, corpus, tmp_path):
    texts = shutil.copytree(corpus, tmp_path / "texts")
    output = tmp_path / "run"
    train_quickly(recipe, output, texts, "training.steps=2")
    for name, message in (
        ("train.en", "The text to train on"),
        ("validation.de", "The validation text"),
    ):
        whole = (texts / name).read_text()
        first, *others = whole.splitlines(keepends=True)
        (texts / name).write_text("".join([*others, first]))
        with pytest.raises(ra.InputError, match=f"{message}.* started with"):
            train_quickly(recipe, output, texts, resume=True)
        # A file of another time, with the same text.
        (texts / name).write_text(whole)
    assert checkpoints_of(output) == ["step-00000002"]
    texts.rename(tmp_path / "moved")
    results = train_quickly(recipe, output, tmp_path / "moved", resume=True)
    assert results["steps"] == 4


def test_what_a_run_records_stays_when_resuming_is_refused(
    quickly, copy, tmp_path, monkeypatch
):
    names = ("recipe.yaml", "run.json", "config.json")
    before = [(copy / name).read_text() for name in names]
    monkeypatch.chdir(tmp_path)  # The record says where a run was started.
    overrides = ("training.batch_tokens=300", "decoding.num_beams=7")
    with pytest.raises(ra.InputError, match="effective_batch_tokens"):
        quickly(copy, *overrides, resume=True)
    assert [(copy / name).read_text() for name in names] == before


def test_run_that_has_trained_is_not_trained_anew(quickly, copy):
    shutil.rmtree(copy / "checkpoints")
    before = (copy / MODEL).read_bytes()
    with pytest.raises(ra.InputError, match="no checkpoint is left"):
        quickly(copy, "training.steps=6", resume=True)
    assert (copy / MODEL).read_bytes() == before


def test_run_that_has_not_trained_may_have_another_text(
    recipe, corpus, tmp_path, monkeypatch
):
    arguments = recipe, tmp_path / "run"
    overrides = ("training.warmup_steps=auto", "training.steps=2000")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(training_run.TrainingRun, "prepare", interrupt)
        train_quickly(*arguments, corpus, *overrides)
    texts = shutil.copytree(corpus, tmp_path / "texts")
    for name in ("train.en", "train.de"):
        lines = (texts / name).read_text().splitlines()[:100]
        (texts / name).write_text("\n".join([*lines, ""]))
    lines = []
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(training_run.TrainingRun, "prepare", interrupt)
        train_quickly(
            *arguments, texts, *overrides, resume="auto", report=lines.append
        )
    assert "for 100 pairs: training.warmup_steps=666" in lines


def interrupt(*_):
    raise KeyboardInterrupt


def test_scores_are_gone_once_a_finished_run_trains_on(
    quickly, copy, monkeypatch
):
    monkeypatch.setattr(
        training_run, "monitoring_callbacks", lambda *_, **__: [told_to_stop(1)]
    )
    (copy / "results.json").write_text("{}")
    with pytest.raises(SystemExit):
        quickly(copy, "training.steps=6", resume=True)
    assert not (copy / "results.json").exists()


def test_another_end_of_a_cosine_is_said(stop, quickly):
    cosine = ("training.schedule=cosine",)
    output = stop(1, *cosine)
    lines = []
    quickly(
        output, *cosine, "training.steps=3", resume=True, report=lines.append
    )
    assert "the learning rate now falls to 0 at update 3, and not at 4" in lines


# === Updates ===


@pytest.mark.large
def test_update_in_parts_equals_the_whole(quickly, tmp_path):
    overrides = ("training.steps=1", *NO_DROPOUT)
    parts = ("training.batch_tokens=300", "training.effective_batch_tokens=512")
    lines = []
    quickly(tmp_path / "run", *parts, *overrides, report=lines.append)
    assert "512 tokens on 1 device, each in 2 parts" in "\n".join(lines)
    quickly(tmp_path / "whole", *overrides)
    assert_same_arrays(
        checkpoint_of(tmp_path / "run", 1),
        checkpoint_of(tmp_path / "whole", 1),
        atol=1e-6,
    )


def test_run_stops_when_the_loss_is_not_finite(quickly, tmp_path):
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


def test_missing_best_weights_are_named(quickly, copy):
    (copy / "best.safetensors").unlink()
    with pytest.raises(ra.InputError, match="best.safetensors is missing"):
        quickly(copy, resume=True)
    # A mean of checkpoints needs none.
    quickly(copy, "training.average_last=2", resume=True)


@pytest.mark.slow
def test_mixed_precision_learns_as_float32_does(recipe, corpus, tmp_path):
    overrides = (
        "training.steps=300",
        "training.validate_every=100",
        "training.bleu_every=0",
        "training.warmup_steps=100",
    )
    losses = {}
    for name in ("float32", "mixed_bfloat16", "mixed_float16"):
        output = tmp_path / name
        own = recipe.override([*overrides, f"training.precision={name}"])
        ra.train(own, output, data_directory=corpus)
        history = history_of(output)
        losses[name] = history[-1]["loss"]
        assert history[-1]["loss"] < history[0]["loss"] - 0.5
    for loss in losses.values():
        assert loss == pytest.approx(losses["float32"], rel=0.01)


def test_optimizer_follows_the_recipe(recipe):
    recipe = recipe.override(
        ["training.gradient_clip=0.5", "training.adam_epsilon=1e-2"]
    )
    model = ra.Transformer(recipe.model_config(vocabulary_size=5))
    compile_model(model, recipe.training, total_steps=1)
    optimizer = model.optimizer
    assert (optimizer.global_clipnorm, optimizer.epsilon) == (0.5, 1e-2)
    assert (optimizer.beta_1, optimizer.beta_2) == (0.9, 0.98)
    rates = optimizer._learning_rate
    assert rates.warmup_steps == 10


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        # The warm-up ends with the second update, of 0.2.
        ("inverse_sqrt", {1: 0.2, 7: 0.2 * (2 / 8) ** 0.5}),
        ("constant", {2: 0.2, 7: 0.2, 14: 0.2}),
        # A cosine is half of the highest rate in the middle.
        ("cosine", {2: 0.2, 8: 0.1, 14: 0.0}),
    ],
)
def test_learning_rate_follows_its_schedule(recipe, schedule, expected):
    recipe = recipe.override(
        [
            "training.warmup_steps=2",
            "training.learning_rate=0.2",
            f"training.schedule={schedule}",
        ]
    )
    rate = learning_rate_of(recipe.training, hidden_dim=32, total_steps=14)
    found = {step: float(rate(step)) for step in expected}
    assert found == pytest.approx(expected, abs=1e-6)
