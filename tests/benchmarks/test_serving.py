"""The benchmark of the server, at a tiny size."""

import pytest

pytestmark = pytest.mark.only_on("tensorflow", reason="graphs of TensorFlow")


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
