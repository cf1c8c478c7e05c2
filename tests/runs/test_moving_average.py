"""Runs that keep a moving average of their weights."""

import json
import sys

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.models.weights import load_arrays

MOMENTUM = "training.ema_momentum=0.5"
LAST = "checkpoints/step-00000012"


@pytest.mark.large
def test_moving_average_is_what_is_kept_and_not_what_is_trained(
    trained, recipe, corpus, tmp_path, monkeypatch
):
    # To score the model takes longer than to train it.
    module = sys.modules["relative_attention.runs.training_run"]
    monkeypatch.setattr(module, "write_results", lambda *_: {})
    output = tmp_path / "run"
    # Stopped on the way: neither the weights nor their average see it.
    for steps, resume in ((6, False), (12, True)):
        ra.train(
            recipe.override(
                [MOMENTUM, f"training.steps={steps}", "training.bleu_every=0"]
            ),
            output,
            data_directory=corpus,
            resume=resume,
        )
    raw = load_arrays(output / LAST / "model.safetensors")
    expected = load_arrays(trained / LAST / "model.safetensors")
    for name, array in expected.items():
        np.testing.assert_array_equal(raw[name], array)
    history = json.loads((output / "history.json").read_text())
    best = min(history, key=lambda epoch: epoch["val_loss"])["step"]
    checkpoint = output / "checkpoints" / f"step-{best:08}"
    averages = {
        array.tobytes()
        for array in load_arrays(checkpoint / "training.safetensors").values()
    }
    raw = load_arrays(checkpoint / "model.safetensors")
    kept = load_arrays(output / "model.safetensors")
    for name, array in kept.items():
        assert array.tobytes() in averages, name
    assert any((kept[name] != raw[name]).any() for name in kept)
