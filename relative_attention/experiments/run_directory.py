"""The folder that a training run fills."""

import pathlib
import shutil

from relative_attention.errors import InputError
from relative_attention.experiments.recipe import Recipe
from relative_attention.experiments.run_lock import RUN_LOCK

# What may change when a run goes on: how long it goes, what it keeps, and on
# what devices; `RunKeeper` sees to it that updates have as many tokens.
_MAY_CHANGE = {
    "training": (
        "steps",
        "epochs",
        "minutes",
        "devices",
        "bleu_every",
        "pictures",
        "batch_tokens",
        "effective_batch_tokens",
        "on_nonfinite",
        "save_every",
        "save_minutes",
        "keep_checkpoints",
        "average_last",
        "early_stopping",
    ),
    "decoding": (
        "num_beams",
        "length_penalty",
        "max_extra_length",
        "max_source_length",
    ),
}


def claim_run_directory(path, recipe, resume=False, overwrite=False):
    """Make sure that a folder may be used for a run, and write the recipe.

    Nothing of a run that is there already is lost unless `overwrite`.

    Args:
        path: path of the folder.
        recipe: `Recipe` of the run.
        resume: bool. Whether to go on with the run in the folder.
        overwrite: bool. Whether to delete the run in the folder first.

    Returns:
        `pathlib.Path` of the folder.

    Raises:
        InputError: if the folder holds something, unless it is a run and one
            of `resume` and `overwrite` is given; or if `resume` is given and
            the run there was made by another recipe.
    """
    path = pathlib.Path(path)
    if resume and overwrite:
        raise InputError("`--resume` and `--overwrite` exclude one another.")
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file, not a folder for a run.")
    if path.is_dir() and _content(path):
        if not (path / "recipe.yaml").is_file():
            raise InputError(
                f"{path} holds files but no run. Choose another `--output`."
            )
        if resume:
            _check_same_run(path, recipe)
        elif overwrite:
            for child in _content(path):
                _delete(child)
        else:
            raise InputError(
                f"{path} holds another run. Pass `--resume` to go on with it, "
                "`--overwrite` to delete it, or choose another `--output`."
            )
    path.mkdir(parents=True, exist_ok=True)
    recipe.save(path / "recipe.yaml")
    return path


def _content(path):
    """What a folder holds besides the lock of who writes it."""
    return [child for child in path.iterdir() if child.name != RUN_LOCK]


def _delete(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _check_same_run(path, recipe):
    before = Recipe.load(path / "recipe.yaml").to_mapping()
    now = recipe.to_mapping()
    for section, value in now.items():
        if section in ("name", "description"):
            continue
        for key in value.keys() | before[section].keys():
            old, new = before[section].get(key), value.get(key)
            if old != new and key not in _MAY_CHANGE.get(section, ()):
                raise InputError(
                    f"The run in {path} had `{section}.{key}` {old!r}, now it "
                    f"is {new!r}: it would not be the same run. Resume with "
                    "the old value, or choose another `--output`."
                )
