"""Benchmarks of what feeds training."""

import pytest

from benchmarks.training import feeding

pytestmark = pytest.mark.only_on("tensorflow", reason="it feeds TensorFlow")


def test_time_is_compared_by_the_token():
    def turn(seconds, tokens):
        return {"steps": 2, "seconds": seconds, "tokens": tokens}

    pipeline, held = feeding.training_rows(
        {"pipeline": [turn(4.0, 8)], "same batches in memory": [turn(1.0, 4)]}
    )
    assert pipeline["ms_per_step"] == [2000.0]
    assert pipeline["pipeline_over_this"] is None
    assert held["tokens_per_second"] == [4.0]
    assert held["pipeline_over_this"] == [2.0]


@pytest.mark.large
def test_feeding(run_benchmark, texts):
    result, printed = run_benchmark(
        "training.feeding",
        *("--data", texts, "--vocabulary-size", 300, "--batch-tokens", 64),
        *("--rounds", 1, "--steps", 2),
    )
    *trained, alone = result.rows
    assert [row["trained_on"] for row in trained] == [
        "pipeline",
        "same batches in memory",
        "one batch repeated",
    ]
    assert alone["pairs_per_second"] > 0
    assert "the pipeline alone delivers" in printed
