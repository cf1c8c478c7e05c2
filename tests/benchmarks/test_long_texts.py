"""The benchmark that measures the memory of long texts, on every backend."""

import pytest


@pytest.mark.large
def test_memory_of_long_texts_grows_with_the_length(run_benchmark):
    heads, lengths = 4, (4096, 8192)
    result, printed = run_benchmark(
        "attention.attention_speed",
        *("--lengths", *lengths, "--memory-length", *lengths, "--memory-only"),
        *("--kinds", "relative", "--known", "--precision", "float32"),
        *("--mask", "causal", "--dropout", 0.1, "--batch-tokens", 1),
        *("--num-heads", heads, "--key-dim", 16, "--memory-calls", 2),
        *("--processes", 1),
        is_apart=True,
        # By default the heap keeps what was freed, more or less of it by the
        # number of threads; so the tensors alone count.
        MALLOC_MMAP_THRESHOLD_="65536",
    )
    short, long = (
        row["memory"]["median"]["relative"][0] for row in result.rows
    )
    # With its square, there would be four times as much.
    assert long < 3 * short
    assert long < heads * lengths[1] ** 2 * 4 / 3
    assert f"memory: {long / 1e6:,.2f} MB" in printed
