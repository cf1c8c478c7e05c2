"""Sentences to look at again and again."""

import itertools


def validation_pairs(data, count):
    """The first pairs of the validation text with text on both sides.

    Args:
        data: `PreparedData`.
        count: int. How many, if there are so many.

    Returns:
        List of pairs of strings, source and reference.
    """
    with_text = (
        pair for pair in data.validation if all(side.strip() for side in pair)
    )
    return list(itertools.islice(with_text, count))
