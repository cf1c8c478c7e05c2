"""How many updates a run makes."""


def training_length(section, num_batches, report):
    """The updates that a recipe allows: its steps or its epochs.

    Args:
        section: `TrainingSection`.
        num_batches: int. Updates of one pass over the corpus.
        report: called with a line for the log where `epochs` ends training
            before `steps`.

    Returns:
        int.
    """
    if section.epochs is None:
        return section.steps
    steps = section.epochs * num_batches
    if section.steps is not None and section.steps > steps:
        report(
            f"training ends after {steps:,} updates, not the "
            f"{section.steps:,} of `training.steps`: `training.epochs` is "
            f"{section.epochs:,} (`training.epochs=null` for no such limit)"
        )
    return min(steps, section.steps or steps)
