"""The table of bars for speed, and what was measured."""

import types

import pytest

from benchmarks.bars import bars_table
from benchmarks.harness.results import RESULTS
from benchmarks.harness.results import Result


def read(name):
    return Result.read(RESULTS / f"{name}.json")


def row_of(table, what):
    (line,) = [line for line in table.splitlines() if what in line]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_row_has_the_figures_of_both_kinds_of_processor():
    _, bar, ours, others = row_of(
        bars_table(read), "OpenNMT-tf, beam 4, batch 32"
    )
    assert bar == "at least 3.50"
    assert ours == "**1.74**"
    assert others == "**2.91**"


def test_what_was_not_measured_on_a_processor_is_said():
    table = bars_table(read)
    assert row_of(table, "first translation")[-1] == "-"
    assert row_of(table, "tokens/s, relative, mixed_bfloat16")[-1] == "-"


@pytest.mark.parametrize(
    ("ratio", "cell"),
    [(1.0, "1.00"), (1.004, "**1.004**"), (1.006, "**1.01**"), (0.5, "0.50")],
)
def test_figures_beyond_a_bar_are_bold(ratio, cell):
    """The bar of a layer over Keras' is at most 1.00."""
    rows = [
        {
            "tokens": tokens,
            "max_relative_position": 16,
            "engine": engine,
            "backward_over": {"keras": [0.0, ratio, 9.0], "none": 1.0},
            "forward_over": {"keras": 1.0, "none": 1.0},
        }
        for tokens in (32, 128)
        for engine in ("none", "transpose", "blocks")
    ]
    made_up = types.SimpleNamespace(rows=rows, precision="float32")

    def read_made_up(name):
        return made_up if name == "attention_speed" else read(name)

    what = "attention over Keras' layer, float32, 32, 128 tokens"
    assert row_of(bars_table(read_made_up), what)[2] == f"{cell}, {cell}"


def test_a_layer_is_the_one_that_auto_takes():
    """Up to 2 K tokens `"transpose"`, beyond `"blocks"`."""
    rows = read("attention_speed").rows
    medians = {
        (row["tokens"], row["engine"]): sorted(row["backward_over"]["keras"])
        for row in rows
        if row["max_relative_position"] == 16
    }
    shown = row_of(bars_table(read), "attention over Keras' layer, float32")[2]
    for engine, tokens, cell in zip(
        ["transpose", "blocks"], [32, 64], shown.split(", ")
    ):
        values = medians[tokens, engine]
        assert cell.strip("*") == f"{values[len(values) // 2]:.2f}"
