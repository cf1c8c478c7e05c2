"""Measures how fast models train on this machine's first device."""

import operator
import statistics
import time
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from relative_attention.data import TokenBatches
from relative_attention.data import TokenCorpus
from relative_attention.errors import InputError
from relative_attention.models import Transformer
from relative_attention.models import presets
from relative_attention.models import training_flops
from relative_attention.recipes.sections import TrainingSection
from relative_attention.runs.report import Report
from relative_attention.runs.report import say_nothing
from relative_attention.runs.run import compile_model
from relative_attention.schema import unknown

# The first step compiles, the second may still allocate.
_WARM_UP_STEPS = 2


def preset_speed(
    names: Sequence[str],
    lengths: Sequence[int],
    batch_tokens: int = 4096,
    vocabulary_size: int = 32768,
    precision: str = "float32",
    num_steps: int = 5,
    num_rounds: int = 3,
    report: Report = say_nothing,
) -> list[dict[str, Any]]:
    """Measures tokens per second of training, by preset and sentence length.

    The presets train on random sentences of one length with `fit` and
    `TokenBatches`, as `train` does: on TensorFlow, with a graph for sentences
    of any length. They take turns, `num_steps` at a time, and are compared
    within a round, as the speed of a shared machine varies. It works on every
    backend of Keras.

    Args:
        names: A list of presets; the others are compared with the first.
        lengths: A list of integers, the tokens of a sentence on both sides.
        batch_tokens: An integer, the tokens of a batch on each side. Defaults
            to `4096`.
        vocabulary_size: An integer. Defaults to `32768`.
        precision: A dtype policy. Defaults to `"float32"`.
        num_steps: An integer, the steps of a turn. Defaults to `5`.
        num_rounds: An integer, the turns of each preset. Defaults to `3`.
        report: A function to call with a line about the progress.

    Returns:
        A list of dicts: `"preset"`, `"length"`, `"tokens_per_second"` (source
        and target), `"flops_per_second"` (see `training_flops`) and
        `"slowdown"`, time over that of the first preset; medians of all
        rounds.

    Raises:
        InputError: if a preset is unknown or a number too small.
    """
    for name in names:
        if name not in presets():
            raise InputError(unknown("preset", name, presets()))
    sizes = [batch_tokens, vocabulary_size, num_steps, num_rounds]
    if not names or not lengths or min(*lengths, *sizes) < 1:
        raise InputError(
            "There must be a preset and a length, and every number must be at "
            f"least 1. Received: presets {names} and numbers "
            f"{[*lengths, *sizes]}."
        )
    # All are built before any is timed, as they take turns.
    models = {}
    for name in names:
        model = Transformer.from_preset(name, vocabulary_size, dtype=precision)
        compile_model(model, TrainingSection(), total_steps=1)
        models[name] = model
    rows = []
    for length in lengths:
        # The same sentences for all, so that only the models differ.
        batches = _batches(batch_tokens, length, vocabulary_size)
        # Compiled, before the clock runs.
        for model in models.values():
            _time_steps(model, batches, _WARM_UP_STEPS)
        seconds: dict[str, list[float]] = {name: [] for name in names}
        for number in range(1, num_rounds + 1):
            for name, model in models.items():
                report(
                    f"{length} tokens, round {number} of {num_rounds}: {name}"
                )
                seconds[name].append(_time_steps(model, batches, num_steps))
        num_pairs = len(batches.corpus)
        for name, model in models.items():
            # A median, as one turn may be slow on a shared machine.
            speed = num_pairs / statistics.median(seconds[name])
            flops = training_flops(model.config, length, length)
            # Of the same round.
            slowdowns = map(operator.truediv, seconds[name], seconds[names[0]])
            rows.append(
                {
                    "preset": name,
                    "length": length,
                    "tokens_per_second": 2 * length * speed,
                    "flops_per_second": flops * speed,
                    "slowdown": statistics.median(slowdowns),
                }
            )
    return rows


def _batches(
    batch_tokens: int, length: int, vocabulary_size: int
) -> TokenBatches:
    """Returns one batch of random sentences of one length, repeated."""
    num_pairs = max(batch_tokens // length, 1)
    # The last token of a sentence is its end, which `TokenBatches` adds.
    offsets = (length - 1) * np.arange(num_pairs + 1)
    # The ids below 3 are special, unless there are no others.
    source, target = np.random.default_rng(0).integers(
        min(3, vocabulary_size - 1), vocabulary_size, (2, offsets[-1])
    )
    corpus = TokenCorpus(
        source_ids=source,
        source_offsets=offsets,
        target_ids=target,
        target_offsets=offsets,
        line_numbers=np.arange(num_pairs) + 1,
        num_empty=0,
        num_too_long=0,
    )
    return TokenBatches(corpus, max(batch_tokens, length))


def _time_steps(
    model: Transformer, batches: TokenBatches, num_steps: int
) -> float:
    """Returns the seconds of a step, without the start of `fit`."""
    starts: list[float] = []
    # The clock starts with the first step: `fit` itself takes time.
    timer = keras.callbacks.LambdaCallback(
        on_train_batch_begin=lambda batch, logs: starts.append(
            time.perf_counter()
        )
    )
    # `fit` returns the loss, so all steps are done.
    model.fit(batches, steps_per_epoch=num_steps, callbacks=[timer], verbose=0)
    return (time.perf_counter() - starts[0]) / num_steps
