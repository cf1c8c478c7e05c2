"""A step on two replicas is that of one; `test_replicas.py` has more cases."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.only_on(
    "tensorflow", reason="tf.distribute is TensorFlow's"
)

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def results():
    """What `two_replicas.py` prints: all that needs two devices, at once."""
    process = subprocess.run(
        [sys.executable, "-m", "tests.training.two_replicas"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr[-4000:]
    return json.loads(process.stdout.splitlines()[-1])


def assert_same(arrays, expected):
    for array, other in zip(arrays, expected, strict=True):
        np.testing.assert_allclose(array, other, rtol=0, atol=1e-6)


def assert_shows_the_same(shown, expected):
    assert shown.keys() == expected.keys()
    for name, numbers in expected.items():
        np.testing.assert_allclose(
            shown[name], numbers, rtol=2e-6, err_msg=name
        )


def test_replicas_share_each_batch(results):
    one, two = results["on_token_batches"]
    assert_same(two["weights"], one["weights"])
    assert_shows_the_same(two["shown"], one["shown"])
    assert {"gradient_norm", "tokens"} <= two["shown"].keys()
    assert not {"val_skipped", "val_gradient_norm"} & two["shown"].keys()


def test_averages_are_those_of_one_replica(results):
    one, two = results["on_token_batches"]
    assert_same(two["averaged"], one["averaged"])
    assert (
        max(
            np.abs(np.subtract(*pair)).max()
            for pair in zip(two["averaged"], two["weights"])
        )
        > 1e-3
    )
    # Each replica has its own weights back.
    for number, copy in enumerate(two["copies"]):
        assert copy == two["weights"][number // 2]


def test_parts_on_replicas_are_the_whole_batch(results):
    one, two = results["in_parts"]
    assert_same(two["weights"], one["weights"])
    assert_shows_the_same(two["shown"], one["shown"])
    assert (
        max(
            np.abs(np.subtract(*pair)).max()
            for pair in zip(one["start"], one["weights"])
        )
        > 1e-2
    )


def test_update_that_is_not_finite_is_left_out_everywhere(results):
    poisoned = results["poisoned"]
    assert poisoned["is_finite"] and poisoned["is_changed"]
    assert poisoned["iterations"] == 2
    assert poisoned["shown"]["skipped"] == [1, 1]
    assert np.isfinite(poisoned["shown"]["loss"]).all()


def test_nothing_is_drawn_when_the_data_have_ended(results):
    # Two epochs of two steps, the number of which nobody knew.
    assert results["poisoned"]["draws"] == [4]


def test_replicas_drop_different_elements(results):
    (first, second), (first_later, _) = results["dropped"]
    assert first != second
    assert first != first_later


@pytest.mark.parametrize(
    "argument",
    [
        "jit_compile",
        "steps_per_execution",
        "gradient_accumulation_steps",
        "activity_regularizer",
    ],
)
def test_what_cannot_be_exact_is_refused(results, argument):
    assert f"`{argument}`" in results["refused"][argument]
