"""Trains the model of a recipe, from its texts to its scores."""

import pathlib
from typing import Any

from relative_attention.files import lock_run
from relative_attention.runs.cluster import Cluster
from relative_attention.runs.devices import choose_strategy
from relative_attention.runs.distilled_text import distilled_from
from relative_attention.runs.one_device import check_backend
from relative_attention.runs.prepared_data import prepare_data
from relative_attention.runs.provenance import provenance
from relative_attention.runs.recipe import Recipe
from relative_attention.runs.report import Report
from relative_attention.runs.report import print_error
from relative_attention.runs.report import say_nothing
from relative_attention.runs.run_directory import check_resume
from relative_attention.runs.run_directory import claim_run_directory
from relative_attention.runs.run_inputs import find_inputs
from relative_attention.runs.training_run import TrainingRun
from relative_attention.saving.model_directory import load_results
from relative_attention.training import StopSignals
from relative_attention.training import choose_precision


def train(
    recipe: Recipe,
    output: pathlib.Path | str,
    data_directory: pathlib.Path | str | None = None,
    resume: bool | str = False,
    overwrite: bool = False,
    report: Report | None = None,
) -> dict[str, Any]:
    """Trains the model of a recipe and scores it.

    It uses the devices of the recipe; on Keras' JAX backend, the first one.
    With TensorFlow and `TF_CONFIG` in the environment it is one of several
    machines, which all see the same `output`. The first of them writes it.

    Args:
        recipe: A `Recipe`.
        output: The path of the folder to fill; afterwards `load_translator`
            reads it.
        data_directory: The path of a folder in which to look for the texts;
            see `find_corpus`. Defaults to `None`.
        resume: A boolean to indicate whether to go on with the run in
            `output`; its texts are found where they were when it was started.
            With `"auto"`, go on if there is a run, else start one.
        overwrite: A boolean to indicate whether to delete the run in `output`
            first.
        report: A function that is called with each line for the log.
            Defaults to printing to standard error.

    Returns:
        A dict, what was written to `results.json`.

    Raises:
        InputError: if a text is missing or unusable, there is no run to go
            on with, the backend cannot train it, there are too few devices,
            `output` holds something that must not be lost or is written by
            another process, all before any work is done; if the disk has too
            little space, before the first
            update; or if an update is not finite, or does not fit into the
            memory.
        KeyboardInterrupt, SystemExit: on SIGINT or SIGTERM, after a
            checkpoint was saved.
    """
    resume = check_resume(output, resume)
    check_backend(recipe)
    # TensorFlow wants its devices before it does anything else.
    cluster = Cluster(choose_strategy(recipe.training.devices))
    report = (report or print_error) if cluster.is_chief else say_nothing
    inputs = find_inputs(recipe, output, data_directory, resume, overwrite)
    # Noted now: the code may change while a long run goes on.
    origin = provenance()
    precision, reason = choose_precision(recipe.training.precision)
    output = pathlib.Path(output)
    # Before anything of a run that is there is changed.
    with lock_run(output, cluster.is_chief, report):
        with cluster.chief_first():
            if cluster.is_chief:
                claim_run_directory(
                    output, recipe, resume, overwrite, inputs.paths
                )
            data = prepare_data(
                recipe,
                inputs.texts,
                output,
                report,
                inputs.initial_weights,
                inputs.vocabularies,
            )
        report(f"precision: {precision} ({reason})")
        run = TrainingRun(recipe, data, cluster, precision, output, report)
        run.prepare(inputs.initial_weights)
        with StopSignals() as signals:
            run.fit(signals)
        with cluster.chief_first():
            if cluster.is_chief:
                origin.update(distilled_from(recipe, output))
                return run.finish({**origin, "precision": precision})
        return load_results(output)
