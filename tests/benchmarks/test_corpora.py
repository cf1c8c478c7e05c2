"""Benchmarks of what feeds training."""

import numpy as np
import pytest

from benchmarks.training import feeding
from benchmarks.training.made_up_corpus import join_lines
from benchmarks.training.made_up_corpus import make_lexicon

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


def test_an_unknown_preset_is_one_line(texts):
    with pytest.raises(SystemExit, match="^error: Unknown preset 'huge'"):
        feeding.main(["--data", str(texts), "--preset", "huge"])


def test_lines_have_the_words_that_were_drawn():
    words = np.array([b"a ", b"bc "], object)
    text = join_lines(words, np.array([0, 1, 1]), np.array([2, 1]))
    assert text == b"a bc.\nbc.\n"


def test_frequent_words_are_short(rng):
    words = make_lexicon(rng, 40)
    # One syllable up to rank 31, two up to rank 1,000.
    assert max(map(len, words[:31])) < np.mean([len(w) for w in words[31:]])
    assert all(word.endswith(b" ") for word in words)


@pytest.mark.large
def test_large_corpus(run_benchmark):
    result, printed = run_benchmark(
        "training.large_corpus",
        *("--pairs", 300, "--vocabulary-size", 400, "--batches", 2),
        *("--batch-tokens", 256),
    )
    phases = [row["phase"] for row in result.rows]
    assert phases[0] == "read both texts" and phases[-1] == "feed"
    assert result.rows[-1]["batches_per_second"] > 0
    assert "MB while feeding" in printed
