"""A run that is killed again and again ends as if it never had been."""

import json
import random
import signal
import time

import pytest

import relative_attention as ra
from tests.runs.conftest import start_command
from tests.runs.conftest import wait_for
from tests.runs.conftest import write_recipe

STEPS = 200
OVERRIDES = [
    f"training.steps={STEPS}",
    "training.validate_every=50",
    # Most moments are then moments of a save.
    "training.save_every=2",
    "training.keep_checkpoints=3",
    "training.bleu_every=0",
    # The model is a mean of what two passes ended with.
    "training.average_epochs=2",
]
TIMES = ("seconds", "tokens_per_second")
FINAL = (
    "best.safetensors",
    "model.safetensors",
    f"checkpoints/step-{STEPS:08}/model.safetensors",
    f"checkpoints/step-{STEPS:08}/training.safetensors",
)


def records(output):
    """What was recorded, less times."""
    return [
        {name: record[name] for name in record.keys() - {*TIMES}}
        for record in json.loads((output / "history.json").read_text())
    ]


def checkpoints(output):
    """Names, those that are being written too."""
    return {path.name for path in (output / "checkpoints").glob("*")}


@pytest.mark.slow
def test_killed_at_any_moment_and_resumed_is_bit_for_bit_the_same(
    recipe, corpus, tmp_path
):
    recipe = recipe.override(OVERRIDES)
    whole = tmp_path / "whole"
    ra.train(recipe, whole, data_directory=corpus)
    output = tmp_path / "killed"
    log = output.with_suffix(".log")
    file = write_recipe(recipe, tmp_path / "recipe.yaml")
    command = ["train", file, "--resume=auto"]
    command += ["--output", output, "--data", corpus]
    moments = random.Random(0)
    signals = [signal.SIGKILL] * 5 + [signal.SIGTERM, signal.SIGINT]
    moments.shuffle(signals)
    for number in signals:
        process = start_command(log, *command)
        before = checkpoints(output)
        wait_for(
            lambda before=before: checkpoints(output) - before,
            [process],
            output,
            seconds_between=0.001,
        )
        time.sleep(moments.uniform(0, 0.2))
        process.send_signal(number)
        status = process.wait(timeout=120)
        expected = {
            signal.SIGKILL: -signal.SIGKILL,
            # A checkpoint was saved, and the command ended by itself.
            signal.SIGTERM: 128 + signal.SIGTERM,
            signal.SIGINT: 128 + signal.SIGINT,
        }
        assert status == expected[number], log.read_text()[-3000:]
        assert not (output / "results.json").exists()
    assert start_command(log, *command).wait(timeout=400) == 0
    for name in FINAL:
        assert (output / name).read_bytes() == (whole / name).read_bytes(), name
    assert records(output) == records(whole)
