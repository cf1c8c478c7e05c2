"""Training runs: what they leave, how they go on, what they refuse."""

import json
import shutil

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.models.weights import load_arrays


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


def test_damaged_checkpoint_is_refused(trained, recipe, corpus, tmp_path):
    output = tmp_path / "run"
    shutil.copytree(trained, output)
    weights = output / "checkpoints" / "step-00000012" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ra.InputError, match="cut short"):
        train_small(recipe, output, corpus, "training.steps=16", resume=True)
