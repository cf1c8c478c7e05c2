"""A step on several replicas is the step of one on the whole batch."""

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

SCRIPT = pathlib.Path(__file__).with_name("replica_steps.py")
CASES = (
    "pre-norm",
    "post-norm",
    "Adam, no smoothing",
    "global_clipnorm",
    "clipnorm",
    "clipvalue",
    "clipped float16",
    "accumulation",
    "clipped accumulation",
)


@pytest.fixture(scope="module")
def results():
    """What `replica_steps.py` prints."""
    process = subprocess.run(
        [sys.executable, str(SCRIPT), "2"], capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr[-4000:]
    return json.loads(process.stdout.splitlines()[-1])


# On one replica a step is another only where the batch is taken in parts.
ON_REPLICAS = [(name, "2") for name in CASES] + [
    (name, "1")
    for name in CASES
    if "accumulation" in name or name == "post-norm"
]


@pytest.mark.parametrize(("name", "num_replicas"), ON_REPLICAS)
def test_steps_are_those_of_the_whole_batch(results, name, num_replicas):
    case = results["cases"][name]
    assert case["change"] > 1e-2
    # In float16 a sum depends on the order by as much.
    tolerance = 2e-3 if "float16" in name else 1e-6
    assert case[num_replicas]["weights"] < tolerance
    assert case[num_replicas]["iterations"] == 0


@pytest.mark.parametrize(
    ("name", "num_replicas"),
    [case for case in ON_REPLICAS if "float16" not in case[0]],
)
def test_what_is_shown_is_that_of_the_whole_batch(results, name, num_replicas):
    shown = dict(results["cases"][name][num_replicas])
    assert {"loss", "tokens", "gradient_norm"} <= shown.keys()
    assert ("perplexity" in shown) == (name == "pre-norm")
    assert shown.pop("perplexity", 0) < 1e-4
    assert max(shown.values()) < 2e-6


@pytest.mark.parametrize("num_replicas", ["1", "2"])
@pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
def test_update_that_is_not_finite_is_left_out_everywhere(
    results, dtype, num_replicas
):
    poisoned = results["poisoned"][dtype][num_replicas]
    assert poisoned["is_finite"]
    assert not poisoned["is_plain"]
    assert poisoned["iterations"] == 1
    assert poisoned["skipped"] == 1
    assert np.isfinite(poisoned["loss"])


def test_float16_lowers_its_scale_when_one_replica_overflows(results):
    scales = results["overflown"]
    assert scales["1"]["scale"] == scales["2"]["scale"] == 2**14
    assert scales["1"]["iterations"] == scales["2"]["iterations"] == 1
    assert scales["1"]["is_finite"] and scales["2"]["is_finite"]
    assert scales["1"]["skipped"] == scales["2"]["skipped"] == 0


def test_replicas_drop_different_elements(results):
    ((one,), (one_later,)) = results["dropped"]["1"]
    (first, second), (first_later, _) = results["dropped"]["2"]
    assert first == one and first_later == one_later
    assert first != second
    assert first != first_later


def test_nothing_is_counted_when_the_data_have_ended(results):
    for num_replicas in ("1", "2"):
        counted = results["counted"][num_replicas]
        assert counted["iterations"] == 9
        assert counted["draws"] == [9]


@pytest.mark.parametrize("argument", ["jit_compile", "steps_per_execution"])
def test_what_keras_fails_on_is_refused(results, argument):
    assert f"Received: {argument}=" in results["refused"][argument]
