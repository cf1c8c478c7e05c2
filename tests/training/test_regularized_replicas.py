"""Regularizers and class weights: exact on every replica, or refused."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

pytestmark = [
    pytest.mark.large,
    pytest.mark.only_on("tensorflow", reason="tf.distribute is TensorFlow's"),
]

SCRIPT = pathlib.Path(__file__).with_name("regularized_steps.py")


@pytest.fixture(scope="module")
def results():
    """What the script prints with one replica and with two."""

    def run(number):
        process = subprocess.run(
            [sys.executable, str(SCRIPT), str(number)],
            capture_output=True,
            text=True,
        )
        assert process.returncode == 0, process.stderr[-4000:]
        return json.loads(process.stdout.splitlines()[-1])

    return {number: run(number) for number in (1, 2)}


@pytest.mark.parametrize(
    "number, parts", [(1, "2 parts"), (2, "1 parts"), (2, "2 parts")]
)
def test_regularized_step_is_that_of_one_device(results, number, parts):
    one, other = results[1]["1 parts"], results[number][parts]
    for weight, expected in zip(other["weights"], one["weights"]):
        np.testing.assert_allclose(weight, expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(other["loss"], one["loss"], rtol=2e-6)
    for name, value in one["evaluation"].items():
        np.testing.assert_allclose(
            other["evaluation"][name], value, rtol=2e-6, err_msg=name
        )


@pytest.mark.parametrize("number", [1, 2])
def test_what_cannot_be_exact_is_refused(results, number):
    assert "`class_weight` must be None" in results[number]["class_weight"]
    assert "`sample_weight`" in results[number]["class_weight"]
    assert "`activity_regularizer`" in results[number]["activity"]
