"""Runs on two devices, and on two machines of which one dies."""

import json
import signal
import socket

import numpy as np
import pytest

import relative_attention as ra
from tests.runs.conftest import NO_DROPOUT
from tests.runs.conftest import assert_same_arrays
from tests.runs.conftest import logs
from tests.runs.conftest import start_command
from tests.runs.conftest import wait_for
from tests.runs.conftest import write_recipe

pytestmark = pytest.mark.slow

STEPS = 60
OVERRIDES = [
    f"training.steps={STEPS}",
    "training.validate_every=30",
    "training.save_every=5",
    "training.keep_checkpoints=2",
    "training.effective_batch_tokens=512",
    "training.bleu_every=0",
    # At the full rate rounding errors grow a thousandfold in so many steps.
    "training.learning_rate_scale=0.02",
    *NO_DROPOUT,
]


def test_two_devices_of_a_recipe_are_one(recipe, corpus, tmp_path):
    overrides = ["training.steps=12", "training.validate_every=6"]
    recipe = recipe.override([*OVERRIDES, *overrides])
    file = write_recipe(recipe, tmp_path / "recipe.yaml")
    for number in ("1", "2"):
        log = tmp_path / f"{number}.log"
        words = ["train", file, "--output", tmp_path / number]
        words += ["--data", corpus, f"training.devices={number}"]
        assert start_command(log, *words).wait() == 0, log.read_text()[-3000:]
    assert "on 2 devices" in log.read_text()
    last = "checkpoints/step-00000012/model.safetensors"
    assert_same_arrays(tmp_path / "1" / last, tmp_path / "2" / last, atol=1e-6)


def start(number, addresses, recipe, corpus, output):
    """The command on one of the machines, here a process."""
    cluster = {
        "cluster": {"worker": addresses},
        "task": {"type": "worker", "index": number},
    }
    words = ["train", recipe, "--resume=auto", "--output", output]
    return start_command(
        f"{output}-{number}.log",
        *(*words, "--data", corpus),
        TF_CONFIG=json.dumps(cluster),
    )


def free_addresses(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return addresses


def test_a_worker_that_is_killed_changes_nothing(recipe, corpus, tmp_path):
    recipe = recipe.override(OVERRIDES)
    expected = tmp_path / "one_machine"
    ra.train(recipe, expected, data_directory=corpus)
    file = write_recipe(recipe, tmp_path / "recipe.yaml")
    output = tmp_path / "two_machines"

    def is_saved():
        return any((output / "checkpoints").glob("step-*"))

    addresses = free_addresses(2)
    workers = [start(i, addresses, file, corpus, output) for i in range(2)]
    wait_for(is_saved, workers, output)
    workers[1].send_signal(signal.SIGKILL)
    workers[1].wait()
    # The other cannot go on alone, and must not wait for ever.
    assert workers[0].wait(timeout=240) != 0, logs(output)
    assert not (output / "results.json").exists()

    addresses = free_addresses(2)
    workers = [start(i, addresses, file, corpus, output) for i in range(2)]
    for worker in workers:
        assert worker.wait(timeout=400) == 0, logs(output)
    # It was killed in an epoch, of which all is recorded.
    records, of_one = (
        json.loads((folder / "history.json").read_text())
        for folder in (output, expected)
    )
    for record, whole in zip(records, of_one, strict=True):
        assert record["tokens"] == whole["tokens"]
        np.testing.assert_allclose(record["loss"], whole["loss"], rtol=1e-4)
    last = f"checkpoints/step-{STEPS:08}/model.safetensors"
    assert_same_arrays(output / last, expected / last, atol=1e-6)
    log = (tmp_path / "two_machines-0.log").read_text()
    assert "Start all of them again with `--resume=auto`" in log
    assert "on 2 devices" in log
