"""The benchmark of a GPU, with tiny sizes on two devices of a CPU."""

import collections
import importlib.util

import pytest

pytestmark = pytest.mark.only_on(
    "tensorflow", reason="a process of its own, on JAX"
)


@pytest.mark.slow
def test_all_parts_are_measured(run_benchmark):
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed; `make test-backends` does")
    result, printed = run_benchmark(
        "gpu",
        *("--tiny", "--rounds", 2, "--steps", 2, "--minutes", 600),
        is_apart=True,
        KERAS_BACKEND="jax",
        XLA_FLAGS="--xla_force_host_platform_device_count=2",
    )
    assert result.precision == "mixed_bfloat16"
    parts = collections.Counter(row["part"] for row in result.rows)
    assert parts == {"layer": 4, "training": 6, "decoding": 2, "devices": 2}
    for row in result.rows:
        assert len(row["seconds"]) == 2 and min(row["seconds"]) > 0, row
        if row["part"] in ("training", "devices"):
            # Each model has its weights, their gradients and Adam's moments.
            assert row["bytes"] > 10_000
            assert row["tokens_per_second"][0] > 0
        assert f"\n{row['part']}:\n" in f"\n{printed}"
    (first,) = (r for r in result.rows[-2:] if r["batch_tokens"] == 32)
    assert first["devices"] == 2


@pytest.mark.slow
def test_what_there_is_no_time_for_is_stored_as_such(run_benchmark):
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed; `make test-backends` does")
    result, printed = run_benchmark(
        "gpu",
        *("--tiny", "--minutes", 0),
        is_apart=True,
        KERAS_BACKEND="jax",
    )
    assert {row["failed"] for row in result.rows} == {"no time left"}
    assert "no time left" in printed
