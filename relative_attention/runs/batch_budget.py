"""How many tokens a device takes at a time."""

import keras
import numpy as np

from relative_attention.errors import InputError

# Where there is no GPU whose memory could be filled.
_CPU_TOKENS = 4096
_FIRST_TOKENS = 1024
_MOST_TOKENS = 2**20
# Batches differ in shape, and memory falls to pieces.
_SAFE_SHARE = 0.9


def choose_batch_tokens(recipe, make_model, report):
    """`training.batch_tokens` of a recipe, found out where it is `auto`.

    Args:
        recipe: `Recipe`.
        make_model: function of no arguments that gives a compiled model, in
            the scope of its strategy, to try steps with.
        report: called with a line for the log.

    Returns:
        int.
    """
    tokens = recipe.training.batch_tokens
    if tokens != "auto":
        return tokens
    if not keras.distribution.list_devices("gpu"):
        report(f"batch_tokens: {_CPU_TOKENS:,}, as there is no GPU to fill")
        return _CPU_TOKENS
    model = make_model()
    longest = recipe.data.max_length
    tokens = largest_budget(
        lambda tokens: all(
            _step_fits(model, tokens, length) for length in (longest, 32)
        )
    )
    report(f"batch_tokens: {tokens:,}, the most that fit")
    return tokens


def largest_budget(fits):
    """The greatest number of tokens that fits, less a tenth.

    Args:
        fits: function of a number of tokens, whether a step with them does.

    Returns:
        int.

    Raises:
        InputError: if not even the smallest fits.
    """
    low = _FIRST_TOKENS
    if not fits(low):
        raise InputError(
            f"Not even {low:,} tokens fit on the device. Choose a smaller "
            "model, or `training.batch_tokens` yourself."
        )
    high = 2 * low
    while high < _MOST_TOKENS and fits(high):
        low, high = high, 2 * high
    # To within a sixteenth.
    while high - low > low // 16:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return int(low * _SAFE_SHARE)


def _step_fits(model, tokens, length):
    """Whether a training step with sentences of this length fits."""
    import tensorflow as tf

    rows = max(tokens // length, 1)
    labels = np.full((rows, length), 2, np.int32)
    inputs = {"source_token_ids": labels, "target_token_ids": labels}
    try:
        model.train_on_batch(inputs, labels)
    except tf.errors.ResourceExhaustedError:
        return False
    return True
