"""How fast models train on this machine's first device."""

import statistics
import time

import keras
import numpy as np

from relative_attention.errors import InputError
from relative_attention.models import Transformer
from relative_attention.models import presets
from relative_attention.models import training_flops
from relative_attention.training import MaskedCrossEntropy
from relative_attention.training import TransformerSchedule

# The first step compiles, the second may still allocate.
_WARM_UP_STEPS = 2


def step_benchmark(
    names,
    lengths,
    batch_tokens=4096,
    vocabulary_size=32768,
    precision="float32",
    num_steps=5,
    num_rounds=3,
    report=None,
):
    """Tokens per second of training, by preset and sentence length.

    Steps on random sentences, all of one length. The presets take turns,
    `num_steps` at a time: what is compared was measured in the same round, as
    a minute of a shared machine is not like the next. On every backend of
    Keras.

    Args:
        names: list of strings. Presets; the first is what the others are
            compared with.
        lengths: list of int. Tokens of a sentence, on both sides.
        batch_tokens: int. Tokens of a batch on each side. Defaults to `4096`.
        vocabulary_size: int. Defaults to `32768`.
        precision: dtype policy. Defaults to `"float32"`.
        num_steps, num_rounds: int. Default to `5` and `3`.
        report: called with a line on how far it is.

    Returns:
        List of dicts: `"preset"`, `"length"`, `"tokens_per_second"` (source
        and target), `"flops_per_second"` (see `training_flops`) and
        `"slowdown"`, time over that of the first preset; medians of all
        rounds.

    Raises:
        InputError: if a preset is unknown or a number too small.
    """
    for name in names:
        if name not in presets():
            raise InputError(
                f"Unknown preset {name!r}. Known: {', '.join(presets())}."
            )
    numbers = [*lengths, batch_tokens, vocabulary_size, num_steps, num_rounds]
    if not names or not lengths or min(numbers) < 1:
        raise InputError(
            "There must be a preset and a length, and every number must be at "
            f"least 1. Received: presets {names} and numbers {numbers}."
        )
    models = {
        name: _compiled(name, vocabulary_size, precision) for name in names
    }
    rows = []
    for length in lengths:
        batch = _batch(batch_tokens, length, vocabulary_size)
        seconds = {name: [] for name in names}
        for model in models.values():
            _time_steps(model, batch, _WARM_UP_STEPS)
        for number in range(num_rounds):
            for name, model in models.items():
                if report is not None:
                    report(
                        f"{length} tokens, round {number + 1} of "
                        f"{num_rounds}: {name}"
                    )
                seconds[name].append(_time_steps(model, batch, num_steps))
        num_pairs = len(batch[1])
        for name in names:
            step = statistics.median(seconds[name])
            flops = training_flops(models[name].config, length, length)
            rows.append(
                {
                    "preset": name,
                    "length": length,
                    "tokens_per_second": 2 * length * num_pairs / step,
                    "flops_per_second": flops * num_pairs / step,
                    "slowdown": statistics.median(
                        mine / first
                        for mine, first in zip(seconds[name], seconds[names[0]])
                    ),
                }
            )
    return rows


def _compiled(name, vocabulary_size, precision):
    model = Transformer.from_preset(name, vocabulary_size, dtype=precision)
    model.compile(
        optimizer=keras.optimizers.Adam(
            TransformerSchedule(model.config.hidden_dim),
            beta_2=0.98,
            epsilon=1e-9,
        ),
        loss=MaskedCrossEntropy(0.1),
    )
    return model


def _batch(batch_tokens, length, vocabulary_size):
    random = np.random.default_rng(0)
    shape = (max(batch_tokens // length, 1), length)
    source, target = (
        random.integers(min(3, vocabulary_size - 1), vocabulary_size, shape)
        for _ in range(2)
    )
    inputs = {
        "source_token_ids": source.astype("int32"),
        "target_token_ids": target.astype("int32"),
    }
    return inputs, np.roll(target, -1, axis=1).astype("int32")


def _time_steps(model, batch, num_steps):
    """Seconds of a step; its loss is read, so that it has been done."""
    start = time.perf_counter()
    for _ in range(num_steps):
        model.train_on_batch(*batch)
    return (time.perf_counter() - start) / num_steps
