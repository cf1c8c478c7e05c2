"""The number of tokens of an update, and of each part of it."""

import dataclasses
from collections.abc import Callable

import keras
import numpy as np

from relative_attention.errors import InputError
from relative_attention.runs.device_errors import is_out_of_memory
from relative_attention.runs.recipe import Recipe
from relative_attention.runs.report import Report

# Where there is no GPU whose memory could be filled.
_CPU_TOKENS = 4096
_FIRST_TOKENS = 1024
_MOST_TOKENS = 2**20
# Batches differ in shape, and memory becomes fragmented.
_SAFE_SHARE = 0.9
# Many short sentences need other memory than few long ones.
_SHORT_LENGTH = 32


@dataclasses.dataclass(frozen=True)
class UpdateSize:
    """How many tokens an update takes, and how many at a time.

    Attributes:
        batch_tokens: The most that a device takes at a time.
        update_tokens: Those of an update, on all devices together.
        num_replicas: The number of devices.
    """

    batch_tokens: int
    update_tokens: int
    num_replicas: int

    @property
    def tokens_at_a_time(self) -> int:
        """The tokens that all devices together take at a time."""
        return self.batch_tokens * self.num_replicas

    @property
    def num_parts(self) -> int:
        """The number of parts that the gradient of an update is the sum of."""
        # Rounded up: a device never takes more than its `batch_tokens`.
        return -(-self.update_tokens // self.tokens_at_a_time)


def choose_batch_tokens(
    recipe: Recipe, make_model: Callable[[], keras.Model], report: Report
) -> int:
    """Returns `training.batch_tokens` of a recipe, found out if `auto`.

    Args:
        recipe: A `Recipe`.
        make_model: A function of no arguments that returns a compiled model,
            in the scope of its strategy, to try steps with.
        report: A function that is called with a line for the log.

    Raises:
        InputError: if not even the smallest batch fits.
    """
    tokens = recipe.training.batch_tokens
    if isinstance(tokens, int):
        return tokens
    if not keras.distribution.list_devices("gpu"):
        report(f"batch_tokens: {_CPU_TOKENS:,}, as there is no GPU to fill")
        return _CPU_TOKENS
    model = make_model()
    lengths = (recipe.data.max_length, _SHORT_LENGTH)
    tokens = largest_budget(
        lambda tokens: all(
            _step_fits(model, tokens, length) for length in lengths
        )
    )
    report(f"batch_tokens: {tokens:,}, the most that fit")
    return tokens


def largest_budget(fits: Callable[[int], bool]) -> int:
    """Returns the greatest number of tokens that fits, less a tenth.

    Args:
        fits: A function of a number of tokens that returns whether a step
            with so many fits.

    Raises:
        InputError: if not even the smallest fits.
    """
    low = _FIRST_TOKENS
    if not fits(low):
        raise InputError(
            f"Not even {low:,} tokens fit on the device. Choose a smaller "
            "model, or `training.batch_tokens` yourself."
        )
    # Doubled until it no longer fits: then `low` fits and `high` does not.
    high = 2 * low
    while high < _MOST_TOKENS and fits(high):
        low, high = high, 2 * high
    # Bisection, to within a sixteenth.
    while high - low > low // 16:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return int(low * _SAFE_SHARE)


def _step_fits(model: keras.Model, tokens: int, length: int) -> bool:
    """Returns whether a training step with sentences of this length fits."""
    rows = max(tokens // length, 1)
    labels = np.full((rows, length), 2, np.int32)
    inputs = {"source_token_ids": labels, "target_token_ids": labels}
    try:
        model.train_on_batch(inputs, labels)
    except Exception as error:
        if is_out_of_memory(error):
            return False
        raise
    return True
