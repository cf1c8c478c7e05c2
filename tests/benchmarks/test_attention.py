"""Benchmarks of one attention layer, at tiny sizes."""

import numpy as np
import pytest

from benchmarks.attention.attention_speed import KINDS
from benchmarks.attention.attention_speed import describe
from benchmarks.attention.attention_speed import make_inputs
from benchmarks.attention.attention_speed import make_passes
from benchmarks.attention.attention_speed import parse_arguments
from benchmarks.attention.attention_speed import verdict
from benchmarks.harness.results import Result

ONLY_TENSORFLOW = pytest.mark.only_on(
    "tensorflow", reason="TensorFlow's graphs and profiler"
)
SIZES = ["--num-heads", "1", "--key-dim", "2", "--distance", "1"]


@ONLY_TENSORFLOW
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mask", ["none", "padding", "causal"])
@pytest.mark.parametrize(
    ("graph", "num_graphs"), [("unknown", 1), ("known", 2)]
)
def test_passes_of_a_layer(kind, mask, graph, num_graphs):
    _, options = parse_arguments(
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


def made_up_row(graph="unknown", precision="float32", tokens=64, ratio=1.0):
    over = {"none": [0.9, ratio, 9.0], "keras": [0.9, ratio, 9.0]}
    figure = {"median": {kind: [3.0] for kind in KINDS}, "over": over}
    return {
        "onednn": "default",
        "precision": precision,
        "graph": graph,
        "encoding": "relative",
        "tokens": tokens,
        "forward": figure,
        "backward": figure,
    }


@pytest.mark.parametrize(
    ("changed", "bar"),
    [
        ({}, 1.14),
        ({"precision": "mixed_bfloat16"}, 1.12),
        ({"tokens": 2048}, 1.22),
        ({"graph": "known"}, 1.16),
    ],
    ids=["float32", "bfloat16", "long", "known"],
)
def test_a_bar_allows_for_a_tolerance(changed, bar):
    for ratio, is_met in ((bar + 0.039, True), (bar + 0.041, False)):
        row = made_up_row(**changed, ratio=ratio)
        assert verdict(row, "backward", "none") == (bar, is_met)


def test_memory_has_no_tolerance():
    row = made_up_row(tokens=2048)
    assert verdict(row, "memory", "keras") is None
    for ratio, is_met in ((1.0, True), (1.01, False)):
        row["memory"] = {"over": {"keras": [ratio]}}
        assert verdict(row, "memory", "keras") == (1.0, is_met)


def test_the_table_counts_the_bars_that_are_met():
    _, options = parse_arguments([])
    rows = [made_up_row(), made_up_row(tokens=128, ratio=1.5)]
    result = Result("attention_speed", "", vars(options), "", {}, rows)
    printed = describe(result)
    assert "1.00 (0.90 to 9.00), 1.14 met" in printed
    assert "1.50 (0.90 to 9.00), 1.14 **missed**" in printed
    assert "3 of 6 bars are met." in printed


@pytest.mark.large
@ONLY_TENSORFLOW
def test_profile(run_benchmark):
    result, printed = run_benchmark(
        "attention.attention_profile",
        *("--length", 2, "--batch-tokens", 2, "--calls", 1, *SIZES),
    )
    assert {"operation", "plain_ms", "relative_ms"} <= set(result.rows[0])
    assert sum(row["relative_calls"] for row in result.rows) > 0
    assert "| all " in printed


@pytest.mark.large
@ONLY_TENSORFLOW
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
