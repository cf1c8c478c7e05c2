"""A step on two replicas is that of one, however the batch is taken apart."""

import json
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
    "tensorflow", reason="tf.distribute is TensorFlow's"
)


def run(*names):
    process = subprocess.run(
        [sys.executable, "-m", "tests.training.replicas", *names],
        cwd=pathlib.Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr[-4000:]
    return json.loads(process.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def results():
    """All that needs two devices, at once."""
    return run("on_token_batches", "poisoned", "dropped", "refused")


@pytest.fixture(scope="module")
def more_results():
    """More models and dtypes."""
    return run(
        "in_parts",
        "of_a_transformer",
        "of_a_task",
        "clipped_float16",
        "poisoned_float16",
        "overflown_float16",
    )


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


def test_replicas_share_each_batch(results):
    assert_same_training(*results["on_token_batches"])


@pytest.mark.large
@pytest.mark.parametrize("case", ["in_parts", "of_a_transformer", "of_a_task"])
def test_replicas_share_each_batch_of_more_models(more_results, case):
    assert_same_training(*more_results[case])


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


@pytest.mark.parametrize(
    ("fixture", "case"),
    [
        ("results", "poisoned"),
        pytest.param(
            "more_results", "poisoned_float16", marks=pytest.mark.large
        ),
    ],
)
def test_update_that_is_not_finite_is_left_out_everywhere(
    fixture, case, request
):
    poisoned = request.getfixturevalue(fixture)[case]
    assert poisoned["is_finite"] and poisoned["is_changed"]
    assert poisoned["iterations"] == 2
    assert poisoned["shown"]["skipped"] == [1, 1]
    assert np.isfinite(poisoned["shown"]["loss"]).all()


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


def test_what_cannot_be_exact_is_refused(results):
    for argument, message in results["refused"].items():
        assert f"`{argument}`" in message


def test_mirrored_strategy_of_one_device_trains_as_none():
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
