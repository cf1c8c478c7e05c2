"""The benchmark of one attention layer, at tiny sizes."""

import pytest

from benchmarks.attention.attention_speed import KINDS

pytestmark = pytest.mark.only_on("tensorflow", reason="TensorFlow's graphs")
SIZES = ["--num-heads", "1", "--key-dim", "2", "--distance", "1"]


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
