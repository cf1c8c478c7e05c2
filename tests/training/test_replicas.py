"""A step on two replicas is that of one, however the batch is taken apart."""

import importlib.util
import json
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


def run(*names, backend="tensorflow"):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed; `make test-backends` does")
    process = subprocess.run(
        [sys.executable, "-m", "tests.training.replicas", *names],
        cwd=pathlib.Path(__file__).parents[2],
        env={
            **os.environ,
            "KERAS_BACKEND": backend,
            "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
        },
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr[-4000:]
    return json.loads(process.stdout.splitlines()[-1])


# On JAX each shape of each model is compiled.
BOTH = ["tensorflow", pytest.param("jax", marks=pytest.mark.large)]


@pytest.fixture(scope="module", params=BOTH)
def results(request):
    """All that needs two devices, at once."""
    names = ["on_token_batches", "poisoned", "dropped"]
    names += {
        "tensorflow": ["refused"],
        "jax": ["on_fixed_shapes", "on_arrays", "arrays_refused"],
    }[request.param]
    return run(*names, backend=request.param)


@pytest.fixture(scope="module", params=["tensorflow", "jax"])
def more_results(request):
    """More models and dtypes."""
    names = ["in_parts", "of_a_transformer", "clipped_float16"]
    names += ["poisoned_float16", "overflown_float16"]
    if request.param == "tensorflow":
        names.append("of_a_task")
    return run(*names, backend=request.param)


def case_of(results, case):
    return results.get(case) or pytest.skip("not on this backend")


def largest_change(arrays, others):
    return max(
        np.abs(np.subtract(*pair)).max()
        for pair in zip(arrays, others, strict=True)
    )


def assert_same_training(one, two):
    assert largest_change(one["weights"], two["weights"]) < 1e-6
    assert largest_change(one["start"], one["weights"]) > 1e-2
    assert one["iterations"] == two["iterations"]
    assert one["shown"].keys() == two["shown"].keys()
    assert {"loss", "gradient_norm", "tokens"} <= two["shown"].keys()
    for name, numbers in one["shown"].items():
        np.testing.assert_allclose(
            two["shown"][name], numbers, rtol=2e-6, err_msg=name
        )


@pytest.mark.parametrize(
    "case", ["on_token_batches", "on_fixed_shapes", "on_arrays"]
)
def test_replicas_share_each_batch(results, case):
    assert_same_training(*case_of(results, case))


@pytest.mark.large
@pytest.mark.parametrize("case", ["in_parts", "of_a_transformer", "of_a_task"])
def test_replicas_share_each_batch_of_more_models(more_results, case):
    assert_same_training(*case_of(more_results, case))


@pytest.mark.large
def test_replicas_share_each_batch_in_half_precision(more_results):
    one, two = more_results["clipped_float16"]
    # In float16 a sum depends on the order by as much.
    assert largest_change(one["weights"], two["weights"]) < 2e-3
    assert largest_change(one["start"], one["weights"]) > 1e-2
    assert one["iterations"] == two["iterations"]


def test_averages_are_those_of_one_replica(results):
    one, two = results["on_token_batches"]
    assert largest_change(one["averaged"], two["averaged"]) < 1e-6
    assert largest_change(two["averaged"], two["weights"]) > 1e-3
    # Each replica has its own weights back.
    for number, copy in enumerate(two["copies"]):
        assert copy == two["weights"][number // 2]
    assert not {"val_skipped", "val_gradient_norm"} & two["shown"].keys()


def assert_is_left_out(poisoned):
    assert poisoned["is_finite"] and poisoned["is_changed"]
    assert poisoned["iterations"] == 2
    assert poisoned["shown"]["skipped"] == [1, 1]
    assert np.isfinite(poisoned["shown"]["loss"]).all()


def test_nonfinite_update_is_skipped_on_all_replicas(results):
    assert_is_left_out(results["poisoned"])


@pytest.mark.large
def test_nonfinite_update_is_skipped_in_float16(more_results):
    assert_is_left_out(more_results["poisoned_float16"])


@pytest.mark.large
def test_scale_is_lowered_when_one_replica_overflows(more_results):
    overflown = more_results["overflown_float16"]
    # Once an epoch.
    assert overflown["scale"] == 2**13
    assert overflown["iterations"] == 2
    assert overflown["is_finite"]
    assert overflown["shown"]["skipped"] == [0, 0]


def test_nothing_is_drawn_when_the_data_have_ended(results):
    # Two epochs of two steps, the number of which nobody knew.
    assert results["poisoned"]["draws"] == [4]


def test_replicas_drop_different_elements(results):
    (first, second), (first_later, _) = results["dropped"]
    assert first != second
    assert first != first_later


@pytest.mark.parametrize("case", ["refused", "arrays_refused"])
def test_what_cannot_be_exact_is_refused(results, case):
    for argument, message in case_of(results, case).items():
        assert f"`{argument}`" in message


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
    assert largest_change(*trained) < 1e-6
    assert largest_change(before, trained[0]) > 0


@pytest.mark.parametrize("value", ["2", 0])
def test_accumulation_steps_that_are_no_count_are_named(value):
    with pytest.raises(ValueError, match="`accumulation_steps` must be"):
        Words().compile(accumulation_steps=value)
