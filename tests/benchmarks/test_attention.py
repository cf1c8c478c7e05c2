"""The benchmark of one attention layer, at tiny sizes."""

import argparse

import numpy as np
import pytest

from benchmarks.attention.attention_speed import KINDS
from benchmarks.attention.attention_speed import add_arguments
from benchmarks.attention.attention_speed import make_inputs
from benchmarks.attention.attention_speed import make_passes

pytestmark = pytest.mark.only_on("tensorflow", reason="TensorFlow's graphs")
SIZES = ["--num-heads", "1", "--key-dim", "2", "--distance", "1"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("mask", "graph", "num_graphs"),
    [("padding", "unknown", 1), ("causal", "known", 2)],
)
def test_passes_of_a_layer(kind, mask, graph, num_graphs):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    options = parser.parse_args(
        [*SIZES, "--batch-tokens", "16", "--mask", mask]
    )
    passes = make_passes(kind, options, "float32", graph)
    for length in (4, 8):
        inputs = make_inputs(options, length, "float32")
        outputs = passes["forward"](*inputs)
        assert tuple(outputs.shape) == (16 // length, length, 2)
        gradients = passes["backward"](*inputs)
        # Inputs, query, key, value and output; with relations two tables.
        assert len(gradients) == (7 if kind == "relative" else 5)
        assert all(np.any(gradient) for gradient in gradients)
    for each in passes.values():
        assert each.experimental_get_tracing_count() == num_graphs


@pytest.mark.large
def test_speed(run_command):
    result, printed = run_command(
        "attention.attention_speed",
        *("--lengths", 2, 4, "--precision", "float32", "--memory-length", 4),
        *("--batch-tokens", 8, "--rounds", 1, "--processes", 1, *SIZES),
        *("--unknown", "--onednn", "off"),
    )
    short, long = result.rows
    assert (short["graph"], short["onednn"]) == ("unknown", "off")
    assert [short["tokens"], long["tokens"]] == [2, 4]
    assert "memory" not in short
    assert set(long["memory"]["median"]) == set(KINDS)
    times = short["backward"]["median"]
    assert short["backward"]["over"]["none"] == pytest.approx(
        [times["relative"][0] / times["none"][0]]
    )
    assert "| unknown, float32, no oneDNN |" in printed
