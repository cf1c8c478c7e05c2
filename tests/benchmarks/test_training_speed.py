"""The benchmark of training beside OpenNMT-tf."""

import pytest


@pytest.mark.large
@pytest.mark.only_on("tensorflow", reason="it trains with TensorFlow")
def test_training_speed(run_command, texts):
    result, printed = run_command(
        "training.training_speed",
        *("--data", texts, "--vocabulary-size", 300, "--batch-tokens", 32),
        *("--precisions", "float32", "--repeats", 1),
        *("--warmup", 5, "--steps", 5, "--window", 5),
    )
    assert [row["engine"] for row in result.rows] == [
        "relative, float32",
        "sinusoidal, float32",
    ]
    assert all(row["ratio_to_peer"] is None for row in result.rows)
    assert "| relative, float32" in printed and "not run" in printed
