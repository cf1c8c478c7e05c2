"""The benchmarks of training: beside OpenNMT-tf, and by size."""

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


@pytest.mark.slow
@pytest.mark.only_on("tensorflow", reason="it trains with TensorFlow")
def test_growth(run_command, texts):
    result, printed = run_command(
        "training.growth",
        *("--data", texts, "--vocabulary-size", 300, "--batch-tokens", 32),
        *("--widths", 64, "--lengths", 8, "--pairs", 200, "--steps", 2),
    )
    assert [(row["size"], row["grows"]) for row in result.rows] == [
        (64, "model width"),
        (8, "tokens a sentence"),
        (200, "pairs in the corpus"),
    ]
    assert "| 200 pairs in the corpus" in printed


@pytest.mark.large
def test_paper_models(run_benchmark):
    pytest.importorskip("jax")
    small, large = (
        run_benchmark(
            "training.paper_models",
            *("--presets", "transformer_tiny", "--vocabulary-size", 300),
            *("--batch-tokens", tokens, "--precision", "float32"),
        )
        for tokens in (128, 256)
    )
    (small, printed), ((large,), _) = (
        (result.rows[0], printed) if n == 0 else (result.rows, printed)
        for n, (result, printed) in enumerate((small, large))
    )
    assert "| `transformer_tiny` |" in printed
    assert small["state_bytes"] == 16 * small["parameters"]
    # What is kept grows with the batch, but for the weights among it.
    assert 1.5 < large["kept_bytes"] / small["kept_bytes"] < 2
