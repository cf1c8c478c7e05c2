"""Training runs: what they leave, how they go on, what they refuse."""

import json
import os
import shutil
import signal
import sys

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.models.weights import load_arrays
from relative_attention.training import read_training_table

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


def snapshot(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


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
    assert results["seed"] == 1
    assert results["hardware"]
    assert results["precision"] == "float32"


def test_finished_model_is_the_one_with_the_best_validation_loss(trained):
    history = json.loads((trained / "history.json").read_text())
    best = min(history, key=lambda epoch: epoch["val_loss"])["step"]
    arrays = load_arrays(trained / "model.safetensors")
    assert (trained / "best.safetensors").read_bytes() == (
        trained / "model.safetensors"
    ).read_bytes()
    expected = load_arrays(
        trained / "checkpoints" / f"step-{best:08}" / "model.safetensors"
    )
    assert arrays.keys() == expected.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, expected[name])


@pytest.mark.parametrize("steps", [4, 6])
def test_resumed_run_equals_uninterrupted_run(
    steps, trained, recipe, corpus, tmp_path
):
    output = tmp_path / "run"
    results = train_small(recipe, output, corpus, f"training.steps={steps}")
    assert results["steps"] == steps
    assert not (output / "checkpoints" / "step-00000012").exists()
    train_small(recipe, output, corpus, resume=True)
    last = "checkpoints/step-00000012/model.safetensors"
    expected = load_arrays(trained / last)
    for name, array in load_arrays(output / last).items():
        np.testing.assert_array_equal(array, expected[name], err_msg=name)
    before, after = (
        json.loads((folder / "history.json").read_text())
        for folder in (trained, output)
    )
    assert after[-1]["val_loss"] == before[-1]["val_loss"]
    assert read_training_table(output / "training.csv") == after
    seconds = [epoch["seconds"] for epoch in after]
    assert seconds == sorted(seconds)


def test_optimizer_counts_the_steps_of_training(trained):
    arrays = load_arrays(
        trained / "checkpoints" / "step-00000012" / "training.safetensors"
    )
    assert arrays["optimizer/0"] == 12


def test_only_the_last_checkpoints_are_kept(recipe, corpus, tmp_path):
    train_small(recipe, tmp_path / "run", corpus, "training.keep_checkpoints=2")
    names = [p.name for p in (tmp_path / "run" / "checkpoints").iterdir()]
    assert sorted(names) == ["step-00000008", "step-00000012"]


def test_finished_model_is_the_average_when_asked(recipe, corpus, tmp_path):
    output = tmp_path / "run"
    train_small(recipe, output, corpus, "training.average_last=2")
    parts = [
        load_arrays(output / "checkpoints" / name / "model.safetensors")
        for name in ("step-00000008", "step-00000012")
    ]
    for name, array in load_arrays(output / "model.safetensors").items():
        mean = (parts[0][name].astype("float64") + parts[1][name]) / 2
        np.testing.assert_allclose(array, mean, atol=1e-7)


def test_early_stopping_ends_a_run_that_learns_nothing(
    recipe, corpus, tmp_path
):
    results = train_small(
        recipe,
        tmp_path / "run",
        corpus,
        # No weight changes by so little, so no validation is better.
        "training.learning_rate_scale=1e-30",
        "training.early_stopping=2",
        "training.steps=40",
        "training.bleu_every=0",
    )
    assert results["steps"] == 12


def test_time_limit_ends_a_run_after_a_validation(recipe, corpus, tmp_path):
    results = train_small(
        recipe, tmp_path / "run", corpus, "training.minutes=1e-6"
    )
    assert results["steps"] == 4


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


def test_separate_vocabularies_make_a_model_that_translates(
    recipe, corpus, tmp_path
):
    output = tmp_path / "run"
    train_small(
        recipe,
        output,
        corpus,
        "vocabulary.joint=false",
        "vocabulary.size=350",
        "training.steps=4",
    )
    translator = ra.load_translator(output)
    assert translator.vocabulary is not translator.source_vocabulary
    assert isinstance(translator.translate(["he paid ten euros."])[0], str)


@pytest.mark.parametrize("arguments", [{}, {"overwrite": True}], ids=str)
def test_wrong_data_loses_nothing_of_an_earlier_run(
    arguments, trained, recipe, corpus, tmp_path
):
    output = tmp_path / "run"
    shutil.copytree(trained, output)
    before = snapshot(output)
    with pytest.raises(ra.InputError, match="No text file absent"):
        train_small(recipe, output, corpus, "data.source=absent", **arguments)
    assert snapshot(output) == before


def test_directory_of_another_run_is_refused(trained, recipe, corpus):
    before = snapshot(trained)
    with pytest.raises(ra.InputError, match="--resume.*--overwrite"):
        train_small(recipe, trained, corpus)
    with pytest.raises(ra.InputError, match="`training.seed` 1, now it is 2"):
        train_small(recipe, trained, corpus, "training.seed=2", resume=True)
    assert snapshot(trained) == before


def test_directory_with_other_files_is_never_deleted(recipe, corpus, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ra.InputError, match="no run"):
        train_small(recipe, tmp_path, corpus, overwrite=True)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_overwriting_starts_anew(trained, recipe, corpus, tmp_path):
    output = tmp_path / "run"
    shutil.copytree(trained, output)
    results = train_small(
        recipe, output, corpus, "training.steps=4", overwrite=True
    )
    assert results["steps"] == 4


def test_full_disk_while_saving_keeps_the_checkpoint_before(
    recipe, corpus, tmp_path, monkeypatch
):
    output = tmp_path / "run"
    train_small(recipe, output, corpus, "training.steps=4")
    before = snapshot(output / "checkpoints")

    with monkeypatch.context() as patch:
        patch.setattr(
            "relative_attention.training.checkpoint.save_arrays", no_space_in
        )
        with pytest.raises(OSError, match="No space left"):
            train_small(recipe, output, corpus, resume=True)
    assert snapshot(output / "checkpoints") == before
    results = train_small(recipe, output, corpus, resume=True)
    assert results["steps"] == 12


def no_space_in(arrays, path):
    raise OSError(28, "No space left on device")


def damage(checkpoint, name="model.safetensors"):
    content = bytearray((checkpoint / name).read_bytes())
    content[-1] ^= 1
    (checkpoint / name).write_bytes(content)


def test_damaged_checkpoint_is_reported_and_the_one_before_used(
    trained, recipe, corpus, tmp_path, capfd
):
    output = tmp_path / "run"
    shutil.copytree(trained, output)
    checkpoints = output / "checkpoints"
    damage(checkpoints / "step-00000012")
    train_small(recipe, output, corpus, resume=True)
    errors = capfd.readouterr().err
    assert "step-00000012 is damaged: model.safetensors" in errors
    assert "Going on from step-00000008" in errors
    last = "checkpoints/step-00000012/model.safetensors"
    assert (output / last).read_bytes() == (trained / last).read_bytes()


def test_run_without_a_good_checkpoint_is_refused(
    trained, recipe, corpus, tmp_path
):
    output = tmp_path / "run"
    shutil.copytree(trained, output)
    for checkpoint in (output / "checkpoints").iterdir():
        damage(checkpoint, "training.safetensors")
    with pytest.raises(ra.InputError, match="No checkpoint of.*--overwrite"):
        train_small(recipe, output, corpus, resume=True)


def test_run_with_other_updates_is_not_gone_on_with(
    trained, recipe, corpus, tmp_path
):
    output = tmp_path / "run"
    shutil.copytree(trained, output)
    with pytest.raises(ra.InputError, match="update_tokens = 512, now it is"):
        train_small(
            recipe, output, corpus, "training.batch_tokens=256", resume=True
        )


def test_update_taken_in_parts_is_the_same(trained, recipe, corpus, tmp_path):
    train_small(
        recipe,
        tmp_path / "run",
        corpus,
        "training.batch_tokens=200",
        "training.effective_batch_tokens=512",
        "training.steps=4",
        *NO_DROPOUT,
    )
    train_small(
        recipe,
        tmp_path / "whole",
        corpus,
        "training.steps=4",
        *NO_DROPOUT,
    )
    arrays, expected = (
        load_arrays(tmp_path / name / "checkpoints/step-00000004" / MODEL)
        for name in ("run", "whole")
    )
    for name, array in arrays.items():
        np.testing.assert_allclose(
            array, expected[name], rtol=0, atol=1e-6, err_msg=name
        )


def test_loss_that_is_not_finite_stops_the_run_and_says_where(
    recipe, corpus, tmp_path
):
    output = tmp_path / "run"
    overrides = (
        "training.learning_rate_scale=1e35",
        "training.save_every=1",
        "training.steps=8",
    )
    with pytest.raises(ra.InputError) as error:
        train_small(recipe, output, corpus, *overrides)
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
        train_small(
            recipe,
            output,
            corpus,
            *overrides,
            "training.on_nonfinite=skip",
            resume=True,
        )
    assert (output / "checkpoints" / "step-00000008").exists()


def test_disk_that_is_too_small_is_refused_before_training(
    recipe, corpus, tmp_path, monkeypatch
):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(
        shutil, "disk_usage", lambda path: usage._replace(free=100_000)
    )
    with pytest.raises(ra.InputError, match="keep_checkpoints"):
        train_small(recipe, tmp_path / "run", corpus)
    assert not list((tmp_path / "run").rglob("*.safetensors"))


class Terminator(keras.callbacks.Callback):
    """Sends SIGTERM in the midst of the second validation."""

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_test_batch_begin(self, batch, logs=None):
        if self.epoch == 1 and batch == 0:
            os.kill(os.getpid(), signal.SIGTERM)


def test_run_told_to_stop_while_validating_goes_on_with_that(
    trained, recipe, corpus, tmp_path, monkeypatch
):
    output = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(
            sys.modules["relative_attention.runs.training_run"],
            "monitoring_callbacks",
            lambda *args, **kwargs: [Terminator()],
        )
        with pytest.raises(SystemExit) as stop:
            train_small(recipe, output, corpus)
    assert stop.value.code == 128 + signal.SIGTERM
    assert [p.name for p in (output / "checkpoints").glob("stop-*")] == [
        "stop-00000008"
    ]
    train_small(recipe, output, corpus, resume=True)
    assert not list((output / "checkpoints").glob("stop-*"))
    before, after = (
        json.loads((folder / "history.json").read_text())
        for folder in (trained, output)
    )
    for name in ("step", "loss", "val_loss", "val_bleu"):
        assert [epoch.get(name) for epoch in before] == [
            epoch.get(name) for epoch in after
        ]
    last = "checkpoints/step-00000012/model.safetensors"
    assert (output / last).read_bytes() == (trained / last).read_bytes()


def test_cpu_is_divided_only_before_tensorflow_starts(recipe, corpus, tmp_path):
    with pytest.raises(ra.InputError, match="Start another process"):
        train_small(recipe, tmp_path / "run", corpus, "training.devices=2")


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
        history = json.loads((output / "history.json").read_text())
        losses[name] = history[-1]["loss"]
        assert history[-1]["loss"] < history[0]["loss"] - 0.5
    assert losses[precision] == pytest.approx(losses["float32"], rel=0.01)
