"""A study whose runs are trained, and the record of such a run."""

import json
import re
import shutil

import pytest
import yaml

import relative_attention as ra
from relative_attention.studies.runs import StudyRun
from tests.runs.conftest import start_command
from tests.runs.conftest import wait_for

pytest_plugins = "tests.study_bench"


@pytest.fixture
def finished(trained, recipe, corpus, tmp_path):
    """A run that was made by hand, under the study's name."""
    shutil.copytree(trained, tmp_path / "out" / "relative-1")
    recipe = recipe.override(["training.pictures=true"])
    return StudyRun("relative", 1, recipe, str(tmp_path / "out"), str(corpus))


def edit_recipe(run, **changes):
    path = run.path() / "recipe.yaml"
    mapping = yaml.safe_load(path.read_text())
    mapping["model"].update(changes)
    path.write_text(yaml.safe_dump(mapping))


def test_record_is_computed_from_the_folder_of_a_run(finished, corpus):
    edit_recipe(finished, first_position=0)
    record = finished.record()
    results = json.loads((finished.path() / "results.json").read_text())
    scores, test = results["scores"], record["test"]
    assert test["bleu"] == pytest.approx(scores["test"]["bleu"], abs=0.01)
    assert test["bleu_lowercased"] == scores["test"]["bleu_lowercased"]
    losses = [epoch["val_loss"] for epoch in results["curve"]]
    assert record["validation"] == {
        "bleu": scores["validation"]["bleu"],
        "loss": min(losses),
    }
    for key in ("precision", "steps", "minutes", "hardware", "commit"):
        assert record[key] == results[key]
    # It may be published even if the corpus may not.
    text = json.dumps(record)
    references = (corpus / "test.de").read_text().splitlines()
    assert not any(line and line in text for line in references)


def test_record_of_another_recipe_is_refused(finished):
    edit_recipe(finished, dropout=0.4)
    with pytest.raises(ra.InputError, match="`model.dropout` 0.4"):
        finished.record()


@pytest.mark.slow
def test_killed_study_ends_its_runs_and_is_resumed(study_bench, tmp_path):
    output, log = study_bench.output, tmp_path / "study.log"
    study = output.with_name("positions.yaml")
    command = ["study", study, "--output", output, "--data", study_bench.corpus]
    command += ["training.steps=60", "training.bleu_every=0"]
    command += ["training.save_every=2", "decoding.num_beams=1"]
    begun = [output / "plain-1", output / "relative-1"]

    process = start_command(log, *command, "--jobs=2")
    wait_for(
        lambda: all(any(run.glob("checkpoints/st*")) for run in begun),
        [process],
        output,
    )
    process.kill()
    process.wait()
    # No run goes on alone, unseen.
    wait_for(
        lambda: not any((run / "run.lock").exists() for run in begun),
        [],
        output,
    )
    for run in begun:
        text = run.with_name(f"{run.name}.log").read_text()
        assert "told to stop: saved after update" in text
        assert not (run / "results.json").exists()
    process = start_command(log, *command, "--jobs=2")
    assert process.wait(timeout=400) == 0, log.read_text()
    page = (output / "positions.md").read_text()
    assert page in log.read_text()
    assert "4 runs of 60 updates each in float32" in " ".join(page.split())
    assert (output / "positions.png").exists()
    for run in begun:
        text = run.with_name(f"{run.name}.log").read_text()
        # It was resumed, not started again.
        shown = [int(step) for step in re.findall(r"step (\d+)/60", text)]
        assert shown == sorted(shown) and shown[-1] == 60
    content = json.loads((output / "positions.json").read_text())
    assert len(content["runs"]) == 4
    assert content["table"][1]["difference"]["num_seeds"] == 2
