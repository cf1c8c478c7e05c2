"""`--overwrite` deletes what a run wrote, and nothing else."""

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
    # What a kill left, too; and a run from before runs had a record.
    torn = copy / "checkpoints" / ".step-00000008-x1y2z3"
    torn.mkdir()
    (torn / "model.safetensors").touch()
    (copy / ".model.safetensors-a_b1c2").touch()
    (copy / "run.json").unlink()
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
