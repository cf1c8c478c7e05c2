"""Whose folder a run may take: what is deleted, and what is refused."""

import shutil

import pytest

import relative_attention as ra
from relative_attention.runs.run_directory import claim_run_directory

TEXT = "one line\n"
OWN = {
    "recipe.yaml": (
        "model: {preset: transformer_tiny}\ntraining: {steps: 1}\n"
        "vocabulary: {size: 300}\n"
    ),
    "train.en": TEXT,
    "train.de": TEXT,
    "notes.md": "years of work",
}


def snapshot(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
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
def test_folder_with_a_recipe_of_ones_own_is_no_run(option, run, exp):
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


def test_folder_with_a_recipe_alone_is_no_run(exp):
    for name in ("train.en", "train.de", "notes.md"):
        (exp / name).unlink()
    recipe = ra.find_recipe(str(exp))
    before = snapshot(exp)
    with pytest.raises(ra.InputError, match="no run"):
        claim_run_directory(exp, recipe, overwrite=True)
    assert snapshot(exp) == before


@pytest.fixture
def copy(quick_run, tmp_path):
    """A finished run that may be changed."""
    return shutil.copytree(quick_run, tmp_path / "run")


@pytest.mark.parametrize(
    "name",
    [
        "train.en",
        "notes/ideas.md",
        "checkpoints/notes.md",
        "checkpoints/step-00000004/notes.md",
        "cache/mine.npy",
        "logs/mine.txt",
        "vocabulary.model.txt",
        ".hidden",
    ],
)
def test_run_with_a_file_of_ones_own_is_not_deleted(name, recipe, copy):
    (copy / name).parent.mkdir(exist_ok=True)
    (copy / name).write_text("years of work")
    before = snapshot(copy)
    with pytest.raises(ra.InputError) as error:
        claim_run_directory(copy, recipe, overwrite=True)
    assert f"holds {name.split('/')[0]}" in str(error.value)
    assert snapshot(copy) == before


def test_run_with_a_link_to_elsewhere_is_not_deleted(recipe, copy, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    shutil.move(copy / "checkpoints", tmp_path / "elsewhere")
    (copy / "checkpoints").symlink_to(tmp_path / "elsewhere" / "checkpoints")
    before = snapshot(tmp_path)
    with pytest.raises(ra.InputError, match="holds checkpoints, which no run"):
        claim_run_directory(copy, recipe, overwrite=True)
    assert snapshot(tmp_path) == before


def test_run_without_its_checkpoints_is_not_deleted(recipe, copy):
    shutil.rmtree(copy / "checkpoints")
    before = snapshot(copy)
    with pytest.raises(ra.InputError, match="holds another run"):
        claim_run_directory(copy, recipe)
    assert snapshot(copy) == before


def test_text_that_is_a_runs_own_is_not_deleted(recipe, copy):
    """As where held-out text of a run is what another trains on."""
    text = copy / "cache" / "held_out" / "train.source"
    text.parent.mkdir()
    text.write_text(TEXT)
    with pytest.raises(ra.InputError, match="which the recipe reads"):
        claim_run_directory(
            copy, recipe, overwrite=True, files={"x": str(text)}
        )
    assert text.read_text() == TEXT


def test_overwriting_leaves_nothing_of_a_run(recipe, copy):
    # What a kill left, too.
    torn = copy / "checkpoints" / ".step-00000008-x1y2z3"
    torn.mkdir()
    (torn / "model.safetensors").touch()
    (copy / ".model.safetensors-a_b1c2").touch()
    claim_run_directory(copy, recipe, overwrite=True)
    assert sorted(p.name for p in copy.iterdir()) == ["recipe.yaml", "run.json"]


def test_output_of_a_failed_set_up_is_used_again(
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


def test_vocabulary_of_a_failed_set_up_is_not_that_of_the_next(
    recipe, quick_run, tmp_path
):
    output = tmp_path / "run"
    claim_run_directory(output, recipe)
    shutil.copy(quick_run / "vocabulary.model", output)
    shutil.copytree(quick_run / "cache", output / "cache")
    claim_run_directory(output, recipe, resume=True)
    assert (output / "vocabulary.model").exists()
    claim_run_directory(output, recipe.override(["vocabulary.size=350"]))
    assert not (output / "vocabulary.model").exists()
    # It knows which vocabulary it was made with.
    assert (output / "cache" / "train" / "origin.json").exists()


def train_small(recipe, output, corpus, *overrides, **arguments):
    return ra.train(
        recipe.override(overrides), output, data_directory=corpus, **arguments
    )


def damage(checkpoint, name="model.safetensors"):
    content = bytearray((checkpoint / name).read_bytes())
    content[-1] ^= 1
    (checkpoint / name).write_bytes(content)


def test_unknown_target_language_is_refused_before_any_work(
    recipe, corpus, tmp_path
):
    with pytest.raises(ra.InputError, match="Received: 'dd'.*Known: as"):
        train_small(recipe, tmp_path / "run", corpus, "data.target_language=dd")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("arguments", [{}, {"overwrite": True}], ids=str)
def test_wrong_data_loses_nothing_of_an_earlier_run(
    arguments, copy, recipe, corpus
):
    before = snapshot(copy)
    with pytest.raises(ra.InputError, match="No text file absent"):
        train_small(recipe, copy, corpus, "data.source=absent", **arguments)
    assert snapshot(copy) == before


def test_directory_of_another_run_is_refused(quick_run, recipe, corpus):
    before = snapshot(quick_run)
    with pytest.raises(ra.InputError, match="--resume.*--overwrite"):
        train_small(recipe, quick_run, corpus)
    with pytest.raises(ra.InputError, match="`training.seed` 1, now it is 2"):
        train_small(
            recipe,
            quick_run,
            corpus,
            "training.seed=2",
            "training.validate_every=2",
            resume=True,
        )
    assert snapshot(quick_run) == before


def test_directory_with_other_files_is_never_deleted(recipe, corpus, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ra.InputError, match="no run"):
        train_small(recipe, tmp_path, corpus, overwrite=True)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_run_with_other_updates_is_not_gone_on_with(quickly, copy):
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


def test_cpu_is_divided_only_before_tensorflow_starts(recipe, corpus, tmp_path):
    # What has a device has started.
    import tensorflow as tf

    tf.constant(0)
    with pytest.raises(ra.InputError, match="Start another process"):
        train_small(recipe, tmp_path / "run", corpus, "training.devices=2")


# === Disks that fail: `test_checkpointer.py` has each in small ===


def no_space_in(arrays, path):
    raise OSError(28, "No space left on device")


@pytest.mark.large
def test_full_disk_while_saving_keeps_the_checkpoint_before(
    quickly, tmp_path, monkeypatch
):
    output = tmp_path / "run"
    quickly(output, "training.steps=2")
    before = snapshot(output / "checkpoints")
    with monkeypatch.context() as patch:
        patch.setattr(
            "relative_attention.training.checkpoint.save_arrays", no_space_in
        )
        with pytest.raises(OSError, match="No space left"):
            quickly(output, resume=True)
    assert snapshot(output / "checkpoints") == before
    assert quickly(output, resume=True)["steps"] == 4


@pytest.mark.large
def test_damaged_checkpoint_is_reported_and_the_one_before_used(
    quickly, quick_run, copy, capfd
):
    damage(copy / "checkpoints" / "step-00000004")
    quickly(copy, resume=True)
    errors = capfd.readouterr().err
    assert "step-00000004 is damaged: model.safetensors" in errors
    assert "Going on from step-00000002" in errors
    last = "checkpoints/step-00000004/model.safetensors"
    assert (copy / last).read_bytes() == (quick_run / last).read_bytes()


@pytest.mark.large
def test_run_without_a_good_checkpoint_is_refused(quickly, copy):
    for checkpoint in (copy / "checkpoints").iterdir():
        damage(checkpoint, "training.safetensors")
    with pytest.raises(ra.InputError, match="No checkpoint of.*--overwrite"):
        quickly(copy, resume=True)
