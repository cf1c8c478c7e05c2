"""Finds how many tokens of a batch fit in the memory of a device."""

from collections.abc import Callable

import keras
import numpy as np

from relative_attention.errors import InputError
from relative_attention.errors import is_out_of_memory
from relative_attention.recipes.recipe import Recipe
from relative_attention.runs.report import Report

# Without a GPU whose memory could be filled.
_CPU_TOKENS = 4096
_FIRST_TOKENS = 1024
_MOST_TOKENS = 2**20
# Batches differ in shape, and memory becomes fragmented.
_SAFE_SHARE = 0.9
# Many short sentences need a different amount of memory than few long ones.
_SHORT_LENGTH = 32


def choose_batch_tokens(
    recipe: Recipe, make_model: Callable[[], keras.Model], report: Report
) -> int:
    """Returns `training.batch_tokens` of a recipe, measured if `auto`."""
    tokens = recipe.training.batch_tokens
    if isinstance(tokens, int):
        return tokens
    if not keras.distribution.list_devices("gpu"):
        report(f"batch_tokens: {_CPU_TOKENS:,}, as there is no GPU to fill")
        return _CPU_TOKENS
    # One model for all trials, as its optimizer takes memory, too.
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
    """Returns 0.9 times the largest number of tokens that fits."""
    low = _FIRST_TOKENS
    if not fits(low):
        raise InputError(
            f"Not even {low:,} tokens fit on the device. Choose a smaller "
            "model, or `training.batch_tokens` yourself."
        )
    # Doubled until it no longer fits: `low` fits and `high` does not.
    high = 2 * low
    while high < _MOST_TOKENS and fits(high):
        low, high = high, 2 * high
    # Bisection to a precision of 1/16.
    while high - low > low // 16:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return int(low * _SAFE_SHARE)


def _step_fits(model: keras.Model, tokens: int, length: int) -> bool:
    """Returns whether a training step with sentences of this length fits."""
    rows = max(tokens // length, 1)
    # Any id but padding, which would take no part in the loss.
    labels = np.full((rows, length), 2, np.int32)
    inputs = {"source_token_ids": labels, "target_token_ids": labels}
    try:
        model.train_on_batch(inputs, labels)
    except Exception as error:
        if is_out_of_memory(error):
            return False
        raise
    return True
