"""The benchmark of one attention layer, at tiny sizes."""

import pytest

from benchmarks.attention.attention_speed import KINDS

SIZES = ["--num-heads", "1", "--key-dim", "2", "--distance", "1"]


@pytest.mark.large
@pytest.mark.only_on("tensorflow", reason="graphs for any length")
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


@pytest.mark.large
def test_memory_of_long_texts_grows_with_the_length(run_command):
    heads, lengths = 4, (4096, 8192)
    result, printed = run_command(
        "attention.attention_speed",
        *("--lengths", *lengths, "--memory-length", *lengths, "--memory-only"),
        *("--kinds", "relative", "--known", "--precision", "float32"),
        *("--mask", "causal", "--dropout", 0.1, "--batch-tokens", 1),
        *("--num-heads", heads, "--key-dim", 16, "--memory-calls", 2),
        *("--processes", 1),
    )
    short, long = (
        row["memory"]["median"]["relative"][0] for row in result.rows
    )
    # With its square, there would be four times as much.
    assert long < 3 * short
    assert long < heads * lengths[1] ** 2 * 4 / 3
    assert f"{long / 1e9:.2f}" in printed
