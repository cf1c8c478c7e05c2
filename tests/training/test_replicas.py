"""Training on two devices: what `replicas.py` asks, by backend."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

import relative_attention as ra
from tests.small_models import Words
from tests.small_models import batch_of

pytestmark = pytest.mark.only_on(
    "tensorflow", reason="a process of its own for each backend"
)

# Each process takes a minute or more, and on JAX each shape of each model is
# compiled; so there are two of each.
FIRST = [
    "test_token_batches",
    "test_nonfinite_update_is_skipped_on_all[float32]",
    "test_replicas_drop_different_elements",
]
OF_ARRAYS = [
    "test_fixed_shapes",
    "test_arrays",
    "test_loss_over_rows",
    "test_arrays_that_cannot_be_shared_are_refused",
]
SECOND = [
    "test_parts",
    "test_transformer",
    "test_clipped_float16",
    "test_nonfinite_update_is_skipped_on_all[mixed_float16]",
    "test_scale_is_lowered_when_one_overflows",
]


@pytest.mark.large
@pytest.mark.parametrize(
    "backend, names",
    [
        ("tensorflow", [*FIRST, "test_option_is_refused"]),
        ("tensorflow", [*SECOND, "test_task"]),
        ("jax", [*FIRST, *OF_ARRAYS]),
        ("jax", SECOND),
    ],
    ids=["tensorflow", "tensorflow-more", "jax", "jax-more"],
)
def test_two_replicas_are_as_one(backend, names):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed; `make test-backends` does")
    file = "tests/training/replicas.py"
    command = ("-m", "pytest", "-m", "", "-p", "no:cacheprovider")
    process = subprocess.run(
        [sys.executable, *command, *(f"{file}::{name}" for name in names)],
        cwd=pathlib.Path(__file__).parents[2],
        env={
            **os.environ,
            "KERAS_BACKEND": backend,
            "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
        },
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stdout[-4000:] + process.stderr


def test_mirrored_strategy_of_one_device_equals_no_strategy():
    import tensorflow as tf

    inputs, labels, weights = batch_of(4)
    trained = []
    for strategy in (
        tf.distribute.get_strategy(),
        tf.distribute.MirroredStrategy(["CPU:0"]),
    ):
        keras.utils.set_random_seed(1)
        with strategy.scope():
            model = Words()
            model.compile(
                keras.optimizers.SGD(0.1),
                ra.MaskedCrossEntropy(),
                accumulation_steps=2,
                run_eagerly=not trained,
            )
        before = model.get_weights()
        model.fit(inputs, labels, sample_weight=weights, epochs=2, verbose=0)
        trained.append(model.get_weights())
    for start, one, other in zip(before, *trained):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)
        assert (start != one).any()


@pytest.mark.parametrize("value", ["2", 0])
def test_accumulation_steps_that_are_no_count_are_named(value):
    with pytest.raises(ValueError, match="`accumulation_steps` must be"):
        Words().compile(accumulation_steps=value)
