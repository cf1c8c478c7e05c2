"""`train --resume DIR`: the run is its own recipe and knows its data."""

import json
import shutil

import pytest
import yaml

import relative_attention as ra
from relative_attention.cli import parse
from relative_attention.corpora.recipe_text import named_files
from relative_attention.runs.run_files import files_of_ids
from relative_attention.runs.run_files import recorded_files
from relative_attention.runs.train import train


@pytest.fixture
def copy(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "runs" / "mine")


@pytest.fixture
def asked(monkeypatch):
    """What `train` is called with, instead of training."""
    calls = []

    def stand_in(recipe, output, **arguments):
        calls.append((recipe, str(output), arguments))
        return {"scores": {}}

    monkeypatch.setattr("relative_attention.runs.train", stand_in)
    return calls


@pytest.mark.parametrize(
    "words",
    [
        ("--resume", "runs/mine", "training.steps=16"),
        ("--resume=runs/mine", "training.steps=16"),
        ("training.steps=16", "--resume", "runs/mine"),
        ("runs/mine", "--resume", "training.steps=16"),
        ("runs/mine", "training.steps=16", "--resume"),
        ("runs/mine", "--resume", "--output", "runs/mine", "training.steps=16"),
        ("--resume", "runs/mine", "--output", "runs/mine", "training.steps=16"),
        ("runs/mine", "training.steps=16", "--resume=auto"),
    ],
    ids=" ".join,
)
def test_run_is_gone_on_with(words, run, copy, asked, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, _, err = run("train", *words)
    assert status == 0, err
    ((recipe, output, arguments),) = asked
    assert output == "runs/mine"
    assert recipe.name == "small"
    assert recipe.training.steps == 16
    assert arguments["resume"] and not arguments["overwrite"]


@pytest.mark.parametrize(
    "words",
    [
        ("--resume", "runs/other"),
        ("--resume", "small_relative"),
        ("runs/other", "--resume"),
        ("small_relative", "--resume"),
        ("small_relative", "--output", "runs/other", "--resume"),
        ("--resume", "runs"),
    ],
    ids=" ".join,
)
def test_folder_without_a_run_is_refused(
    words, run, copy, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    status, _, err = run("train", *words)
    assert status == 1
    assert "holds no run to go on with" in err or "Unknown recipe" in err
    assert [p.name for p in (tmp_path / "runs").iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "a RECIPE is needed"),
        (("training.steps=1",), "a RECIPE is needed"),
        (("--resume=auto",), "a RECIPE is needed"),
        (("x", "--resume", "a", "--output", "b"), "two folders: a and b"),
        (("x", "--resume", "a", "--overwrite"), "not allowed with"),
    ],
    ids=str,
)
def test_words_that_make_no_command_are_named(words, message, capsys):
    with pytest.raises(SystemExit):
        parse(["train", *words])
    assert message in capsys.readouterr().err


@pytest.mark.large
def test_resuming_takes_recipe_and_data_from_the_run(
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
    status, _, err = run("train", "--resume", "home/run", "training.steps=8")
    assert status == 0, err
    results = json.loads((home / "run" / "results.json").read_text())
    assert results["steps"] == 8
    # Another file of the same name is not taken for the run's.
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "train.en").write_text("another\n")
    train_again = ra.find_recipe("home/run").override(["training.steps=9"])
    results = train(train_again, "home/run", resume=True)
    assert results["steps"] == 9
    assert not (tmp_path / "runs").exists()


PARTS = (("", "train"), ("validation_", "validation"), ("test_", "test"))


def test_what_cannot_change_is_refused_and_what_may_is_said(run, copy, corpus):
    before = (copy / "recipe.yaml").read_bytes()
    status, _, err = run(
        "train", "--resume", copy, "--data", corpus, "model.hidden_dim=32"
    )
    assert status == 1
    assert "`model.hidden_dim` 16, now it is 32" in err
    assert "training.steps" in err.split("What may change:")[1]
    assert (copy / "recipe.yaml").read_bytes() == before


def test_resume_must_be_known(recipe, tmp_path):
    with pytest.raises(ra.InputError, match='`resume` must be True.*"auto"'):
        train(recipe, tmp_path / "run", resume="always")
    with pytest.raises(ra.InputError, match="holds no run to go on with"):
        train(recipe, tmp_path / "run", resume=True)


def test_texts_of_a_run_without_a_record_are_found(copy, corpus, recipe):
    """Runs from before there was one; of the test text there are no ids."""
    expected = {
        f"{name}.{side}": str(corpus / f"{name}.{side}")
        for _, name in PARTS
        for side in ("en", "de")
    }
    assert recorded_files(copy) == expected
    (copy / "run.json").unlink()
    assert recorded_files(copy) == {}
    assert files_of_ids(copy, named_files(recipe.data)) == expected
    shutil.rmtree(copy / "cache")
    assert files_of_ids(copy, named_files(recipe.data)) == {}
