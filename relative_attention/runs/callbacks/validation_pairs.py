"""Validation sentences that are shown again after each epoch."""

import itertools

from relative_attention.runs.prepared_data import PreparedData


def validation_pairs(data: PreparedData, count: int) -> list[tuple[str, str]]:
    """Returns the first validation pairs with text on both sides.

    Args:
        data: A `PreparedData`.
        count: An integer, how many pairs; fewer if the text has no more.

    Returns:
        A list of pairs of strings, source and reference.
    """
    with_text = (
        pair for pair in data.validation if all(side.strip() for side in pair)
    )
    return list(itertools.islice(with_text, count))
