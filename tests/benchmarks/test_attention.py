"""Benchmarks of one attention layer, at tiny sizes."""

import statistics

import keras
import numpy as np
import pytest

from benchmarks.attention.attention_engine import compile_passes
from benchmarks.attention.attention_engine import make_layer
from benchmarks.attention.attention_speed import describe
from benchmarks.harness.results import RESULTS
from benchmarks.harness.results import Result

ONLY_TENSORFLOW = pytest.mark.only_on(
    "tensorflow", reason="TensorFlow's profiler and engines"
)
SIZES = ["--num-heads", 1, "--key-dim", 2]


@pytest.mark.only_on("tensorflow", "jax", reason="the two are benchmarked")
@pytest.mark.parametrize("kind", ["keras", "transpose"])
def test_both_passes_of_a_layer(kind):
    layer = make_layer(kind, 1, 2, 1)
    inputs = keras.ops.convert_to_tensor(np.ones((1, 3, 2)), "float32")
    layer(*[inputs] * (2 if kind == "keras" else 1))
    forward, backward = compile_passes(layer, kind)
    assert tuple(forward(inputs).shape) == (1, 3, 2)
    gradients = keras.tree.flatten(backward(inputs))
    # Query, key, value and output; with relations two tables.
    weights = 6 if kind == "transpose" else 4
    assert len(gradients) == 1 + weights


@pytest.fixture
def stored():
    return Result.read(RESULTS / "attention_speed.json")


def test_forward_pass_alone_has_ratios_of_its_own(stored):
    table, _, _ = describe(stored).partition("\n\n")
    header, _, *lines = table.splitlines()
    names = [name.strip() for name in header.strip("|").split("|")]
    start = names.index("forward alone")
    assert names[start + 2] == "to no relative positions"
    for line, row in zip(lines, stored.rows, strict=True):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        ratios = row["forward_over"]["none"]
        shown = cells[start + 2]
        assert shown.split()[0] == f"{statistics.median(ratios):.2f}"


def test_a_picture_is_drawn(stored, tmp_path):
    pytest.importorskip("matplotlib", reason="the extra plot is missing")
    from benchmarks.attention.attention_figure import draw_ratios

    draw_ratios(stored.rows[:8], tmp_path / "one.png")
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")


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
        *("--lengths", 2, "--distances", 1, "--implementations", "transpose"),
        *("--batch-tokens", 2, "--rounds", 1, "--seconds", 0.001, *SIZES),
    )
    assert [row["engine"] for row in result.rows] == [
        "keras",
        "none",
        "transpose",
    ]
    assert result.rows[2]["backward_over"]["transpose"] == [1.0]
    assert "T 2, K 1: no relative positions" in printed
