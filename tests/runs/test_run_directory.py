"""Whose folder a run may take: what is deleted, and what is refused."""

import shutil

import pytest
import tensorflow as tf

import relative_attention as ra
from relative_attention.runs.run_directory import claim_run_directory
from tests.runs.conftest import snapshot

TEXT = "one line\nanother line\n"
OWN = {
    "recipe.yaml": (
        "model: {preset: transformer_tiny}\ntraining: {steps: 1}\n"
        "vocabulary: {size: 300}\n"
    ),
    "train.en": TEXT,
    "train.de": TEXT,
    "notes.md": "years of work",
}


@pytest.fixture
def exp(tmp_path):
    """A folder of one's own: a recipe, two texts, notes, and no run."""
    folder = tmp_path / "exp"
    folder.mkdir()
    for name, text in OWN.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("option", ["--overwrite", "--resume=auto", None])
def test_folder_with_a_users_recipe_is_no_run(option, run, exp):
    before = snapshot(exp)
    status, _, err = run(
        "train",
        exp,
        f"data.source={exp / 'train.en'}",
        f"data.target={exp / 'train.de'}",
        "--output",
        exp,
        *([option] if option else []),
    )
    assert status == 1
    assert "holds files but no run" in err
    assert snapshot(exp) == before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("notes.md", "holds notes.md"),
        ("vocabulary.model.txt", "holds vocabulary.model.txt"),
        (".hidden", "holds .hidden"),
        # A link to elsewhere.
        ("checkpoints", "holds checkpoints, which no run"),
        # As where held-out text of a run is what another trains on.
        ("cache/held_out/train.source", "which the recipe reads"),
    ],
)
def test_what_a_user_put_into_a_run_is_not_deleted(
    name, message, recipe, copy, tmp_path
):
    path, elsewhere = copy / name, tmp_path / "elsewhere"
    if path.exists():
        path.rename(elsewhere)
        path.symlink_to(elsewhere)
    else:
        path.parent.mkdir(exist_ok=True)
        path.write_text(TEXT)
    files = {"x": str(path)} if "cache" in name else {}
    before = snapshot(tmp_path)
    with pytest.raises(ra.InputError, match=message):
        claim_run_directory(copy, recipe, overwrite=True, files=files)
    assert snapshot(tmp_path) == before


def test_run_without_its_checkpoints_is_not_deleted(recipe, copy):
    shutil.rmtree(copy / "checkpoints")
    before = snapshot(copy)
    with pytest.raises(ra.InputError, match="holds another run"):
        claim_run_directory(copy, recipe)
    assert snapshot(copy) == before


def test_overwriting_leaves_nothing_of_a_run(recipe, trained, tmp_path):
    output = shutil.copytree(trained, tmp_path / "run")
    # What a kill left, too.
    torn = output / "checkpoints" / ".step-00000008-x1y2z3"
    torn.mkdir()
    (torn / "model.safetensors").touch()
    (output / ".model.safetensors-a_b1c2").touch()
    claim_run_directory(output, recipe, overwrite=True)
    found = sorted(path.name for path in output.iterdir())
    assert found == ["recipe.yaml", "run.json"]


def test_folder_of_a_failed_setup_is_used_again(
    run, recipe_file, corpus, tmp_path
):
    output = tmp_path / "run"
    command = ["train", recipe_file, "--data", corpus, "--output", output]
    status, _, err = run(*command, "vocabulary.size=100")
    assert status == 1
    assert "No vocabulary of 100 pieces" in err
    again = ra.find_recipe(str(recipe_file))
    claim_run_directory(output, again)
    assert ra.Recipe.load(output / "recipe.yaml").vocabulary.size == 400
    # Whatever is missing by then.
    (output / "recipe.yaml").unlink()
    (output / "notes.md").touch()
    claim_run_directory(output, again, resume=True)
    assert ra.Recipe.load(output / "recipe.yaml") == again
    assert (output / "notes.md").exists()


def test_vocabulary_of_a_failed_setup_is_not_used_again(
    recipe, quick_run, tmp_path
):
    output = tmp_path / "run"
    claim_run_directory(output, recipe)
    shutil.copy(quick_run / "vocabulary.model", output)
    shutil.copytree(quick_run / "cache", output / "cache")
    held_out = output / "cache" / "held_out"
    held_out.mkdir()
    claim_run_directory(output, recipe, resume=True)
    assert (output / "vocabulary.model").exists() and held_out.exists()
    claim_run_directory(output, recipe.override(["vocabulary.size=350"]))
    assert not (output / "vocabulary.model").exists()
    assert not held_out.exists()
    # It knows which vocabulary it was made with.
    assert (output / "cache" / "train" / "origin.json").exists()


# === Refused before any work ===


def test_old_run_is_kept_when_the_recipe_is_invalid(quickly, copy, tmp_path):
    # What has a device has started.
    tf.constant(0)
    before = snapshot(tmp_path)
    for override, message in (
        ("data.target_language=dd", "Received: 'dd'.*Known: as"),
        ("data.source=absent", "No text file absent"),
        ("vocabulary.model=absent.model", "absent.model"),
        ("training.devices=2", "Start another process"),
    ):
        for output in (copy, tmp_path / "new"):
            with pytest.raises(ra.InputError, match=message):
                quickly(output, override, overwrite=True)
    assert snapshot(tmp_path) == before
    assert not (tmp_path / "new").exists()


def test_folder_of_another_run_is_refused(copy, quickly):
    before = snapshot(copy)
    with pytest.raises(ra.InputError, match="--resume.*--overwrite"):
        quickly(copy)
    with pytest.raises(ra.InputError, match="`training.seed` 1, now it is 2"):
        quickly(copy, "training.seed=2", resume=True)
    assert snapshot(copy) == before


def test_run_with_other_updates_is_refused(quickly, copy):
    with pytest.raises(ra.InputError, match="update_tokens = 512, now it is"):
        quickly(copy, "training.batch_tokens=256", resume=True)


def test_disk_that_is_too_small_is_refused_before_training(
    quickly, tmp_path, monkeypatch
):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(
        shutil, "disk_usage", lambda path: usage._replace(free=100_000)
    )
    with pytest.raises(ra.InputError, match="keep_checkpoints"):
        quickly(tmp_path / "run")
    assert not list((tmp_path / "run").rglob("*.safetensors"))
