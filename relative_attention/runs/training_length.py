"""Computes how many updates a run makes."""

from relative_attention.runs.recipe_sections import TrainingSection
from relative_attention.runs.report import Report


def training_length(
    section: TrainingSection, num_batches: int, report: Report
) -> int:
    """Returns the updates that a recipe allows: its steps or its epochs.

    Args:
        section: A `TrainingSection`, with `steps` or `epochs` or both.
        num_batches: An integer, the updates of one pass over the corpus.
        report: A function that is called with a line for the log where
            `epochs` ends training before `steps`.
    """
    if section.epochs is None:
        # `check_values` has seen that one of the two is there.
        return section.steps or 0
    steps = section.epochs * num_batches
    if section.steps is not None and section.steps > steps:
        report(
            f"training ends after {steps:,} updates, not the "
            f"{section.steps:,} of `training.steps`: `training.epochs` is "
            f"{section.epochs:,} (`training.epochs=null` for no such limit)"
        )
    return min(steps, section.steps or steps)
