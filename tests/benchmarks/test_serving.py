"""The benchmark of the server, at a tiny size."""

import pytest

from benchmarks.serving import load

pytestmark = pytest.mark.only_on("tensorflow", reason="graphs of TensorFlow")


def test_one_client_is_held_against_the_same_sentences():
    def turn(*latencies):
        return {
            "speed": 1.0,
            "latencies": latencies,
            "translations": ["a", "b"],
        }

    rows = load._rows(
        {
            ("Translator", 1): [turn(0.1, 0.5)],
            ("Translator", 4): [turn(0.3)],
            ("server", 1): [turn(0.102, 0.504)],
        },
        batch=4,
    )
    assert rows[2]["ms_over_translator"] == [pytest.approx(3)]
    assert rows[2]["same_as_translator"] == 2


def test_what_is_too_slow_is_named():
    def rows(ms, ratio, bytes):
        return [
            {"who": "Translator", "size": 64},
            {"who": "server", "size": 1, "ms_over_translator": [ms]},
            {"who": "server", "size": 64, "ratio_to_translator": [ratio]},
            {"who": "memory", "requests": [1, 2], "bytes": [0, bytes]},
        ]

    assert load.misses(rows(9.0, 0.91, 19_000_000)) == []
    assert len(load.misses(rows(11.0, 0.89, 21_000_000))) == 3


@pytest.mark.large
def test_load_of_a_tiny_model(run_command, model_folder):
    result, output = run_command(
        "serving.load",
        model_folder,
        *("--sentences", 20, "--single", 3, "--clients", 1, 4),
        *("--rounds", 1, "--memory", 10, 20),
    )
    assert [r["who"] for r in result.rows] == [
        *["Translator"] * 2,
        *["server"] * 2,
        "memory",
    ]
    for found in result.rows[:-1]:
        assert found["same_as_translator"] == found["sentences"]
        assert found["sentences_per_second"][0] > 0
    assert "| server, 4 clients" in output and "MB." in output
