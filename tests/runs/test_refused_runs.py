"""Runs that are refused, and what is lost by it: nothing."""

import shutil

import pytest

import relative_attention as ra


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


def damage(checkpoint, name="model.safetensors"):
    content = bytearray((checkpoint / name).read_bytes())
    content[-1] ^= 1
    (checkpoint / name).write_bytes(content)


@pytest.fixture
def copy(quick_run, tmp_path):
    """A finished run that may be changed."""
    return shutil.copytree(quick_run, tmp_path / "run")


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
