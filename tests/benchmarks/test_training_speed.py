"""The benchmark of training beside OpenNMT-tf."""

import json
import subprocess
import sys
import types

import numpy as np
import pytest

from benchmarks.harness.engine import ROOT
from benchmarks.training import training_speed
from benchmarks.training.training_engines import write_training_files


def test_what_starts_engines_has_no_tensorflow_itself():
    """The memory of a process counts as that of those which it starts."""
    modules = [
        "attention.attention_speed",
        "decoding.translation_speed",
        "training.training_speed",
    ]
    code = "import sys; " + "; ".join(
        f"import benchmarks.{name}" for name in modules
    )
    code += "; print([n for n in ('keras', 'tensorflow') if n in sys.modules])"
    command = [sys.executable, "-c", code]
    printed = subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert printed.stdout == "[]\n"


def test_speeds_are_compared_window_by_window():
    def turn(tokens):
        return {"steps": 5, "seconds": 2.0, "tokens": tokens}

    turns = {
        "ours": [turn(20), turn(60)],
        training_speed.PEER: [turn(10), turn(20)],
    }
    memory = {"ours": [1, 3, 2], training_speed.PEER: [4]}
    ours, peer = training_speed._rows(turns, memory)
    assert ours["tokens_per_second"] == [10, 30]
    assert ours["steps_per_second"] == [2.5, 2.5]
    assert ours["ratio_to_peer"] == [2.0, 3.0]
    assert ours["peak_memory_bytes"] == 2
    assert peer["ratio_to_peer"] == [1.0, 1.0]


def test_opennmt_tf_gets_the_same_ids(tmp_path):
    tokens = types.SimpleNamespace(
        source_ids=np.array([5, 6, 7]),
        source_offsets=np.array([0, 2, 3]),
        target_ids=np.array([8, 9]),
        target_offsets=np.array([0, 1, 2]),
    )
    config = write_training_files(5, tokens, 2048, 20, tmp_path / "peer")
    assert json.loads(json.dumps(config)) == config
    data = config["data"]
    with open(data["train_features_file"]) as file:
        assert file.read() == "5 6\n7\n"
    with open(data["train_labels_file"]) as file:
        assert file.read() == "8\n9\n"
    with open(data["source_vocabulary"]) as file:
        assert file.read().split() == ["<blank>", "<s>", "</s>", "3", "4"]


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
