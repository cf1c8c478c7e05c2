"""More models, optimizers and dtypes than `test_two_replicas.py` has."""

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
    "clipped float16",
    "accumulation",
    "clipped accumulation",
)
OTHERS = ("poisoned float16", "overflown float16")
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


def on_replicas(names):
    """Names and numbers of replicas."""
    return [
        (name, number)
        for name in names
        # On one replica a step is another only if the batch is in parts.
        for number in (("1", "2") if name in IN_PARTS else ("2",))
    ]


@pytest.mark.parametrize(("name", "num_replicas"), on_replicas(CASES))
def test_steps_are_those_of_the_whole_batch(results, name, num_replicas):
    result = results[name]
    assert result["change"] > 1e-2
    # In float16 a sum depends on the order by as much.
    tolerance = 2e-3 if "float16" in name else 1e-6
    assert result[num_replicas]["weights"] < tolerance
    assert result[num_replicas]["iterations"] == 0


@pytest.mark.parametrize(
    ("name", "num_replicas"),
    on_replicas([c for c in CASES if "float16" not in c]),
)
def test_what_is_shown_is_that_of_the_whole_batch(results, name, num_replicas):
    shown = dict(results[name][num_replicas])
    assert {"loss", "tokens", "gradient_norm"} <= shown.keys()
    assert ("perplexity" in shown) == (name == "pre-norm")
    assert shown.pop("perplexity", 0) < 1e-4
    assert max(shown.values()) < 2e-6


@pytest.mark.parametrize("num_replicas", ["1", "2"])
def test_update_that_is_not_finite_is_left_out_everywhere(
    results, num_replicas
):
    poisoned = results["poisoned float16"][num_replicas]
    assert poisoned["is_finite"]
    assert poisoned["change"] > 1e-2
    assert poisoned["iterations"] == 1
    assert poisoned["skipped"] == 1
    assert np.isfinite(poisoned["loss"])


@pytest.mark.parametrize("num_replicas", ["1", "2"])
def test_scale_is_lowered_when_one_replica_overflows(results, num_replicas):
    overflown = results["overflown float16"][num_replicas]
    assert overflown["scale"] == 2**14
    assert overflown["iterations"] == 1
    assert overflown["is_finite"]
    assert overflown["skipped"] == 0
