"""Averages checkpoints, into a model directory or a file."""

import pathlib
from collections.abc import Sequence

import keras

from relative_attention.data import TokenBatches
from relative_attention.data import TokenCorpus
from relative_attention.data.vocabulary_kinds import is_same_vocabulary
from relative_attention.errors import InputError
from relative_attention.files import atomic_directory
from relative_attention.files import check_is_free
from relative_attention.files import lock_directory
from relative_attention.files import write_lines
from relative_attention.models import Transformer
from relative_attention.models.weights import load_weights
from relative_attention.recipes import Recipe
from relative_attention.runs.checkpoint import RunCheckpoints
from relative_attention.runs.checkpoint import average_checkpoints
from relative_attention.runs.run import compile_model
from relative_attention.saving.model_directory import load_config
from relative_attention.saving.model_directory import load_vocabularies
from relative_attention.saving.model_directory import save_config
from relative_attention.saving.model_directory import save_vocabularies
from relative_attention.saving.model_directory import stopped_run_hint
from relative_attention.zoo import find_file_or_model
from relative_attention.zoo import find_model

_WEIGHTS = ".safetensors"
_BATCH_TOKENS = 4096


def average_run(
    directory: pathlib.Path | str,
    last: int | None = None,
    output: pathlib.Path | str | None = None,
    in_place: bool = False,
) -> pathlib.Path:
    """Averages the last checkpoints of a run.

    Args:
        directory: The path of the run, or the name of a bundled model.
        last: How many checkpoints. Defaults to `None`, all that the run kept.
        output: The path of a model folder to write, which `load_translator`
            reads, or of a `.safetensors` file with only the weights. Defaults
            to a folder next to the run, `<run>_average_<last>`.
        in_place: Whether to replace the `model.safetensors` of the run
            instead; its `results.json`, the scores of the weights before, is
            deleted.

    Returns:
        The path that was written.

    Raises:
        InputError: if there is no run, it has too few checkpoints or a damaged
            one, `output` exists, or, with `in_place`, another process writes
            the run. Nothing is written then.
    """
    if in_place and output is not None:
        raise InputError("`--in-place` and `--output` exclude one another.")
    try:
        run = find_model(directory)
    except InputError as error:
        raise InputError(f"No run at {directory}. {error}") from error
    config, decoding = load_config(run)
    # Before anything is locked or written.
    checkpoints = _last_checkpoints(run, last)
    if in_place:
        weights = run / f"model{_WEIGHTS}"
        # A run that trains would replace the file at its next validation.
        with lock_directory(run):
            average_checkpoints(checkpoints, weights)
            (run / "results.json").unlink(missing_ok=True)
        return weights
    if output is None:
        # Resolved, as `.` has no name.
        name = f"{run.resolve().name}_average_{len(checkpoints)}"
        output = run.resolve().with_name(name)
    output = pathlib.Path(output)
    if run.resolve() in output.resolve().parents:
        raise InputError(
            f"`--output {output}` is in the run, whose files are kept. Choose "
            "another place, or `--in-place` to replace its weights."
        )
    if output.suffix == _WEIGHTS:
        average_checkpoints(checkpoints, output)
        return output
    # A model folder needs them; a file of weights does not.
    vocabularies = load_vocabularies(run)
    check_is_free(output)
    with atomic_directory(output) as folder:
        average_checkpoints(checkpoints, folder / f"model{_WEIGHTS}")
        save_config(config, decoding, folder)
        save_vocabularies(*vocabularies, folder)
        # Nothing else tells later what this is the mean of.
        write_lines(folder / "average.txt", checkpoints)
    return output


def validation_losses(
    directory: pathlib.Path | str, paths: Sequence[pathlib.Path]
) -> list[float] | None:
    """Computes the validation loss of each file of weights of a run.

    Returns `None` if the run no longer has its recipe or the ids of its
    validation text, or this backend of Keras does not train.
    """
    # The mean of a young run is worse than its last weights: the loss tells.
    run = find_model(directory)
    cache = run / "cache" / "validation"
    if not (run / "recipe.yaml").is_file() or not cache.is_dir():
        return None
    # The loss is that of training, which other backends lack.
    if keras.backend.backend() not in ("tensorflow", "jax"):
        return None
    training = Recipe.load(run / "recipe.yaml").training
    try:
        corpus = TokenCorpus.load(cache)
    # The loss is only told beside the mean, so it may be missing.
    except (OSError, ValueError, LookupError, TypeError):
        return None
    config, _ = load_config(run)
    tokens = training.batch_tokens
    batches = TokenBatches(
        corpus,
        # The loss is a mean over tokens, whatever the batches.
        tokens if isinstance(tokens, int) else _BATCH_TOKENS,
        training.seed,
        config.start_token_id,
    )
    # As the run validated: the same loss, on the same ids.
    model = Transformer(config)
    compile_model(model, training, total_steps=1)
    losses = []
    for path in paths:
        load_weights(model.weights, path)
        scores = model.evaluate(batches, verbose=0, return_dict=True)
        losses.append(float(scores["loss"]))
    return losses


def average_files(
    paths: Sequence[pathlib.Path | str], output: pathlib.Path | str | None
) -> pathlib.Path:
    """Averages `.safetensors` files, or folders or bundled models with one.

    Returns the path that was written. After an error nothing is written.
    """
    if output is None or pathlib.Path(output).suffix != _WEIGHTS:
        raise InputError(
            "`--output` must be a `.safetensors` file where files are "
            "averaged: only a run has the vocabulary and the config of a "
            f"model directory. Received: {output}."
        )
    output = pathlib.Path(output)
    found = [find_file_or_model(path, "No weights at") for path in paths]
    for path in found:
        # The mean would take the place of one of its parts.
        if output.resolve() in (
            path.resolve(),
            (path / f"model{_WEIGHTS}").resolve(),
        ):
            raise InputError(
                f"`--output {output}` is one of the files to average. Choose "
                "another."
            )
    _check_same_vocabularies(found)
    average_checkpoints(found, output)
    return output


def _check_same_vocabularies(paths: Sequence[pathlib.Path]) -> None:
    """Refuses models whose ids mean different pieces."""
    models = [path for path in paths if (path / "config.json").is_file()]
    for path in models[1:]:
        pairs = zip(load_vocabularies(models[0]), load_vocabularies(path))
        if not all(is_same_vocabulary(*pair) for pair in pairs):
            raise InputError(
                "Models must have the same vocabulary to be averaged. "
                f"Received: {models[0]} and {path}, whose vocabularies differ."
            )


def _last_checkpoints(
    directory: pathlib.Path, last: int | None
) -> list[pathlib.Path]:
    # Not those of stops, whose moment depends on the clock.
    checkpoints = RunCheckpoints(directory).regular()
    if not checkpoints:
        raise InputError(
            f"{directory} has no checkpoints (folders `checkpoints/step-*`)."
            f"{stopped_run_hint(directory)}"
        )
    if last is None:
        return checkpoints
    if not 1 <= last <= len(checkpoints):
        raise InputError(
            f"`--last` must be at least 1 and at most {len(checkpoints)}, the "
            f"number of checkpoints that {directory} has. Received: {last}. "
            "`training.keep_checkpoints` of a recipe says how many are kept."
        )
    return checkpoints[-last:]
