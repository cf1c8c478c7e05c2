"""Checks of how wide a beam is, and how strong its length penalty."""

import math
from typing import Any

from relative_attention.argument_checks import checked_number

# Logits that a step may have for one sentence: 512 MB in float32, of which
# there are several copies.
_MAX_LOGITS = 2**27


def check_num_beams(model: Any, num_beams: int) -> None:
    """Refuses a beam that memory is hardly made for.

    Args:
        model: `Transformer`, or anything with its `config`, or without.
        num_beams: int.

    Raises:
        ValueError: if one step of one sentence would take too much.
    """
    config = getattr(model, "config", None)
    if config is None:
        return
    most = max(_MAX_LOGITS // config.vocabulary_size, 1)
    if num_beams > most:
        raise ValueError(
            f"`num_beams` must be at most {most:,} with a vocabulary of "
            f"{config.vocabulary_size:,}: each beam has a logit for every "
            f"piece. Received: num_beams={num_beams}."
        )


def check_length_penalty(length_penalty: Any) -> float:
    """Returns the exponent of the length penalty as a float.

    Raises:
        ValueError: if it is no number, below 0 or not finite.
    """
    return checked_number(
        "length_penalty",
        length_penalty,
        lambda value: 0 <= value < math.inf,
        "at least 0, and finite",
    )
