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
CASES = ("global_clipnorm", "accumulation")
SLOW_CASES = (
    "pre-norm",
    "post-norm",
    "Adam, no smoothing",
    "clipnorm",
    "clipvalue",
    "clipped float16",
    "clipped accumulation",
)
OTHERS = ("poisoned float32", "dropped", "counted", "refused")
SLOW_OTHERS = ("poisoned float16", "overflown float16")
IN_PARTS = ("post-norm", "accumulation", "clipped accumulation")


def run(*parts):
    """What `replica_steps.py` prints."""
    process = subprocess.run(
        [sys.executable, str(SCRIPT), "2", *parts],
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr[-4000:]
    return json.loads(process.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def results():
    return run(*CASES, *OTHERS)


@pytest.fixture(scope="module")
def slow_results():
    return run(*SLOW_CASES, *SLOW_OTHERS)


@pytest.fixture
def result(request, name):
    """What the script says of `name`, slow or not."""
    is_slow = name in (*SLOW_CASES, *SLOW_OTHERS)
    fixture = "slow_results" if is_slow else "results"
    return request.getfixturevalue(fixture)[name]


def on_replicas(names):
    """Names and numbers of replicas, the slow ones marked as such."""
    return [
        pytest.param(
            name,
            number,
            marks=pytest.mark.slow if name in SLOW_CASES else (),
        )
        for name in names
        # On one replica a step is another only if the batch is in parts.
        for number in (("1", "2") if name in IN_PARTS else ("2",))
    ]


@pytest.mark.parametrize(
    ("name", "num_replicas"), on_replicas([*CASES, *SLOW_CASES])
)
def test_steps_are_those_of_the_whole_batch(result, name, num_replicas):
    assert result["change"] > 1e-2
    # In float16 a sum depends on the order by as much.
    tolerance = 2e-3 if "float16" in name else 1e-6
    assert result[num_replicas]["weights"] < tolerance
    assert result[num_replicas]["iterations"] == 0


@pytest.mark.parametrize(
    ("name", "num_replicas"),
    on_replicas([c for c in (*CASES, *SLOW_CASES) if "float16" not in c]),
)
def test_what_is_shown_is_that_of_the_whole_batch(result, name, num_replicas):
    shown = dict(result[num_replicas])
    assert {"loss", "tokens", "gradient_norm"} <= shown.keys()
    assert ("perplexity" in shown) == (name == "pre-norm")
    assert shown.pop("perplexity", 0) < 1e-4
    assert max(shown.values()) < 2e-6


@pytest.mark.parametrize("num_replicas", ["1", "2"])
@pytest.mark.parametrize(
    "name",
    [
        "poisoned float32",
        pytest.param("poisoned float16", marks=pytest.mark.slow),
    ],
)
def test_update_that_is_not_finite_is_left_out_everywhere(
    result, name, num_replicas
):
    poisoned = result[num_replicas]
    assert poisoned["is_finite"]
    assert not poisoned["is_plain"]
    assert poisoned["iterations"] == 1
    assert poisoned["skipped"] == 1
    assert np.isfinite(poisoned["loss"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["overflown float16"])
@pytest.mark.parametrize("num_replicas", ["1", "2"])
def test_scale_is_lowered_when_one_replica_overflows(
    result, name, num_replicas
):
    overflown = result[num_replicas]
    assert overflown["scale"] == 2**14
    assert overflown["iterations"] == 1
    assert overflown["is_finite"]
    assert overflown["skipped"] == 0


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
