"""A run of a study in earnest: trained, or found finished."""

import functools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
import yaml

import relative_attention as ra
from relative_attention.runs.study_child import main
from relative_attention.runs.study_job import StudyJob

ROOT = pathlib.Path(__file__).parents[2]
MAIN = "import sys; from relative_attention.cli import main; sys.exit(main())"


@pytest.fixture
def finished(trained, recipe_file, corpus, tmp_path):
    """The job of a run that was made by hand, under the study's name."""
    shutil.copytree(trained, tmp_path / "out" / "relative-1")
    return StudyJob(
        "relative",
        1,
        str(recipe_file),
        ("training.seed=1", "training.pictures=true"),
        str(tmp_path / "out"),
        str(corpus),
    )


def edit_recipe(job, change):
    path = job.directory / "recipe.yaml"
    mapping = yaml.safe_load(path.read_text())
    change(mapping)
    path.write_text(yaml.safe_dump(mapping))


def test_finished_run_is_adopted_and_not_trained_again(finished, corpus):
    # As a version wrote it that had fewer keys.
    edit_recipe(finished, lambda r: r["training"].pop("gradient_clip"))
    edit_recipe(finished, lambda r: r["model"].update(first_position=0))
    weights = finished.directory / "model.safetensors"
    before = weights.stat().st_mtime_ns
    assert main(finished.to_json()) == 0
    assert weights.stat().st_mtime_ns == before
    record = finished.read_record()
    results = json.loads((finished.directory / "results.json").read_text())
    assert record["test"]["bleu"] == pytest.approx(
        results["scores"]["test"]["bleu"], abs=0.01
    )
    assert (
        record["validation"]["bleu"]
        == (results["scores"]["validation"]["bleu"])
    )
    losses = [epoch["val_loss"] for epoch in results["curve"]]
    assert record["validation"]["loss"] == min(losses)
    for key in ("precision", "steps", "minutes", "hardware", "commit"):
        assert record[key] == results[key]
    # What the corpus says stays beside the run.
    lines = finished.hypotheses.read_text().splitlines()
    references = (corpus / "test.de").read_text().splitlines()
    bleu = ra.corpus_bleu(lines, references)
    assert bleu.score == pytest.approx(record["test"]["bleu"], abs=1e-3)
    text = json.dumps(record)
    assert not any(line and line in text for line in lines + references)


def test_run_of_another_recipe_is_not_adopted(finished, capsys):
    edit_recipe(finished, lambda r: r["model"].update(dropout=0.4))
    assert main(finished.to_json()) == 1
    message = capsys.readouterr().err
    assert "holds a run with `model.dropout` 0.4" in message
    assert message.count("\n") == 1
    assert not finished.record.exists()


def test_results_that_are_not_of_the_model_are_refused(finished, capsys):
    path = finished.directory / "results.json"
    results = json.loads(path.read_text())
    results["scores"]["test"]["bleu"] += 1
    path.write_text(json.dumps(results))
    assert main(finished.to_json()) == 1
    assert "they do not belong together" in capsys.readouterr().err
    assert not finished.record.exists()


@pytest.mark.parametrize("key", ["minutes", "scores.test.bleu_lowercased"])
def test_results_of_a_version_that_had_less_are_refused(key, finished, capsys):
    path = finished.directory / "results.json"
    results = json.loads(path.read_text())
    *folders, last = key.split(".")
    functools.reduce(dict.get, folders, results).pop(last)
    path.write_text(json.dumps(results))
    assert main(finished.to_json()) == 1
    message = capsys.readouterr().err
    assert f"lacks `{key}`" in message and message.count("\n") == 1
    assert not finished.record.exists()


def small_study(recipe_file):
    return {
        "description": "Which positions?",
        "recipe": str(recipe_file),
        "overrides": {
            "training.steps": 60,
            "training.devices": 1,
            "training.bleu_every": 0,
            "training.save_every": 2,
            "decoding.num_beams": 1,
        },
        "seeds": [1, 2],
        "rows": [
            {
                "name": "sinusoidal",
                "overrides": {"model.position_encoding": "sinusoidal"},
            },
            {"name": "relative", "compare_with": "sinusoidal"},
        ],
    }


def start(study, output, corpus, *words):
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, "study", study, "--output", output]
        + ["--data", corpus, *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def ended(process):
    out, err = process.communicate(timeout=400)
    return process.returncode, out, err


@pytest.mark.slow
def test_study_is_interrupted_gone_on_with_and_never_run_twice(
    recipe_file, corpus, tmp_path
):
    study, output = tmp_path / "positions.yaml", tmp_path / "out"
    study.write_text(yaml.safe_dump(small_study(recipe_file)))
    process = start(study, output, corpus, "--jobs=2")
    begun = [output / "sinusoidal-1", output / "relative-1"]
    deadline = time.monotonic() + 300
    while not all(list(run.glob("checkpoints/step-*")) for run in begun):
        assert process.poll() is None, ended(process)
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    status, _, err = ended(process)
    assert status == 130 and "The same command goes on" in err
    for run in begun:
        # Nobody writes it any more, and it was not at its end.
        assert not (run / "run.lock").exists()
        assert not (run / "results.json").exists()
    status, out, err = ended(start(study, output, corpus, "--jobs=2"))
    assert status == 0, err
    page = (output / "positions.md").read_text()
    assert page in out
    assert "4 runs of 60 updates each in float32" in " ".join(page.split())
    assert (output / "positions.png").exists()
    for run in begun:
        log = run.with_name(f"{run.name}.log").read_text()
        # It went on, and did not begin anew.
        shown = [int(step) for step in re.findall(r"step (\d+)/60", log)]
        assert shown == sorted(shown) and shown[-1] == 60
    content = json.loads((output / "positions.json").read_text())
    assert len(content["runs"]) == 4
    assert content["table"][1]["difference"]["num_seeds"] == 2
    for run in output.iterdir():
        if run.is_dir():
            shutil.rmtree(run)
    status, again, err = ended(start(study, output, corpus))
    assert status == 0 and page in again, err
    assert not [path for path in output.iterdir() if path.is_dir()]
    status, out, err = ended(start(study, output, corpus, "--list"))
    assert status == 0 and "4 of 4 runs are done" in out, err
    status, _, err = ended(
        start(study, output, corpus, "training.precision=mixed_bfloat16")
    )
    # All is there: nothing would be trained in another precision.
    assert status == 0, err
