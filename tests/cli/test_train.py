"""`relative-attention train`, `study`, `distill`, `demo` and `data`."""

import json
import shutil

import pytest
import yaml

import relative_attention as ra
from tests.cli.conftest import check_refused

pytest_plugins = "tests.study_bench"

# === train --resume: the run is its own recipe and knows its data ===


PARTS = (("", "train"), ("validation_", "validation"), ("test_", "test"))


@pytest.mark.large
def test_resume_takes_recipe_and_texts_from_the_run(
    run, corpus, recipe, tmp_path, monkeypatch
):
    """Relative names, another working directory, and no `--data`."""
    monkeypatch.delenv("RELATIVE_ATTENTION_DATA", raising=False)
    home = tmp_path / "home"
    shutil.copytree(corpus, home / "texts")
    named = recipe.override(
        [
            *(f"data.{part}source=texts/{name}.en" for part, name in PARTS),
            *(f"data.{part}target=texts/{name}.de" for part, name in PARTS),
            "training.steps=4",
            "training.bleu_every=0",
        ]
    )
    (home / "mine.yaml").write_text(yaml.safe_dump(named.to_mapping()))
    monkeypatch.chdir(home)
    assert run("train", "mine.yaml", "--output", "run")[0] == 0
    monkeypatch.chdir(tmp_path)
    # Another file of the same name is not taken for the run's.
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "train.en").write_text("another\n")
    status, _, err = run("train", "--resume", "home/run", "training.steps=8")
    assert status == 0, err
    results = json.loads((home / "run" / "results.json").read_text())
    assert results["steps"] == 8
    assert not (tmp_path / "runs").exists()


# === study ===


def test_study_list_shows_finished_and_missing_runs(study_bench, run):
    study_bench.run(rows=["relative"], seeds=[2])
    # Not recorded yet.
    study_bench.finish("relative", 1)
    (study_bench.output / "plain-1").mkdir()
    study = study_bench.output.with_name("positions.yaml")
    words = ["study", study, "--list", "--output", study_bench.output]
    status, out, err = run(*words)
    assert status == 0, err
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line}
    bleu = study_bench.records()["relative-2"]["test"]["bleu"]
    expected = ["relative-2", "done", f"{bleu:.2f}", "1.5"]
    assert rows["relative-2"] == expected
    assert rows["relative-1"][1] == "done"
    assert rows["plain-1"] == ["plain-1", "begun"]
    assert rows["plain-2"] == ["plain-2", "left"]
    assert "2 of 4 runs are done, in 3 minutes; 2 left." in out
    assert len(study_bench.order()) == 1
    # What was done by another recipe is not said to be done.
    result = run(*words, "training.steps=13")
    check_refused(result, "`training.steps` 12")


def test_study_is_run_and_its_table_printed(study_bench, run, draw_study):
    output = study_bench.output
    study = output.with_name("positions.yaml")
    words = ["study", study, "--output", output, "--data", study_bench.corpus]
    status, out, err = run(*words, "--rows=plain,relative", "--seeds", "1")
    assert status == 0, err
    page = output / "positions.md"
    assert page.read_text() in out and f"\ntable: {page}\n" in out
    assert "picture: " not in out
    assert len(study_bench.order()) == 2
    draw_study()
    status, out, err = run(*words, "--seeds", "1")
    assert out.endswith(f"\npicture: {output / 'positions.png'}\n")


# === demo ===


@pytest.mark.slow
def test_demo_reaches_bleu_90_on_held_out_values(run, tmp_path):
    status, out, _ = run("demo", "--output", tmp_path)
    assert status == 0
    assert float(out.split("held-out BLEU ")[1].split()[0]) >= 90
    assert out.count("translation  ") == 10
    assert (tmp_path / "attention.png").read_bytes()[:4] == b"\x89PNG"
    # What a sentence is translated with changes nothing but last digits.
    sentences = (tmp_path / "corpus" / "test.en").read_text().splitlines()[:40]
    translator = ra.load_translator(tmp_path / "model")
    expected = translator.search(sentences)
    for batch_tokens, order in ((1, 1), (400, 1), (8192, -1)):
        translator.batch_tokens = batch_tokens
        found = translator.search(sentences[::order])[::order]
        for translation, other in zip(expected, found):
            assert translation.token_ids == other.token_ids
            assert translation.score == pytest.approx(other.score, abs=1e-4)


def test_demo_of_one_language_is_refused(run, tmp_path):
    words = ("--languages", "en", "en", "--output", tmp_path)
    check_refused(run("demo", *words), "`languages` must be two")
    (tmp_path / "corpus").mkdir()
    check_refused(run("demo", "--output", tmp_path), "holds other files than")
