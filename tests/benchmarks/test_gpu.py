"""The benchmark of the attention layer on GPUs, on JAX at tiny sizes."""

import subprocess
import sys

import pytest

from benchmarks.harness.engine import ROOT

pytest.importorskip("jax", reason="the benchmark is of JAX")

SIZES = ["--num-heads", 2, "--key-dim", 4, "--batch-tokens", 16]
SHORT = ["--rounds", 1, "--seconds", 0.001, "--product-size", 8]

EQUAL = """
import keras, numpy as np
from benchmarks.attention.gpu_passes import dot_product_layer, relative_layer
inputs = keras.random.normal((2, 7, 8), seed=0)
run, weights = relative_layer(2, 4, None, "auto", inputs, "float32")
other, shapes = dot_product_layer(2, 4, "xla", inputs, "float32")
weights = [keras.random.normal(w.shape, seed=n) for n, w in enumerate(shapes)]
np.testing.assert_allclose(
    run(weights, inputs), other(weights, inputs), rtol=1e-4, atol=1e-4
)
"""


@pytest.fixture(autouse=True)
def jax_backend(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")


@pytest.mark.large
def test_a_row_for_each_layer_and_length(run_command):
    result, output = run_command(
        "attention.gpu", "--lengths", 4, 8, "--distances", 2, *SIZES, *SHORT
    )
    layers = [row["layer"] for row in result.rows[:4]]
    assert layers[0] == "no relative positions"
    assert layers[-1] == '"auto", K 2'
    assert [row["tokens"] for row in result.rows] == [4] * 4 + [8] * 4
    for row in result.rows:
        assert f"T {row['tokens']}: {row['layer']}" in output
        if row["layer"] == layers[0]:
            assert row["backward"]["over"][layers[0]] == [1.0]
            assert row["forward"]["ms"] > 0 and row["forward"]["share"] > 0
        # A processor has no cuDNN: its row says so.
        assert ("reason" in row) == ("cuDNN" in row["layer"])


@pytest.mark.large
def test_both_layers_without_positions_give_the_same():
    subprocess.run([sys.executable, "-c", EQUAL], cwd=ROOT, check=True)


@pytest.mark.large
def test_no_length_is_begun_after_the_time(run_command):
    result, output = run_command(
        "attention.gpu", "--lengths", 4, "--minutes", 1e-9, *SIZES, *SHORT
    )
    assert [row["reason"] for row in result.rows] == ["no time"]
    assert "no time" in output


@pytest.mark.large
def test_another_backend_is_refused(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.attention.gpu"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].endswith("Set KERAS_BACKEND=jax.")
