"""Sentences like captions of images, for load where no text is at hand."""

import random

_WHO = ("A man", "Two women", "A young boy", "An old woman", "Three dogs")
_LOOK = ("in a red shirt", "with a black hat", "wearing blue jeans", "")
_DOES = (
    "rides a bike",
    "are playing the guitar",
    "is running",
    "sits on a bench and reads a newspaper",
    "jumps over a small fence",
)
_WHERE = ("on the street", "in a park", "near the water", "at night", "")
_MORE = (
    "while a crowd of people is watching from the other side of the road",
    "as two children look on",
    "and smiles",
    "",
    "",
)


def made_up_captions(number: int, seed: int = 1) -> list[str]:
    """Returns captions of 4 to 30 words, always the same.

    Args:
        number: An integer, how many.
        seed: An integer.
    """
    generator = random.Random(seed)
    return [
        " ".join(
            part
            for parts in (_WHO, _LOOK, _DOES, _WHERE, _MORE)
            if (part := generator.choice(parts))
        )
        + "."
        for _ in range(number)
    ]
