"""Runs that keep a moving average of their weights."""

import json

import numpy as np

from relative_attention.models.weights import load_arrays

MOMENTUM = "training.ema_momentum=0.5"
LAST = "checkpoints/step-00000004"


def test_moving_average_is_what_is_kept_and_not_what_is_trained(
    quickly, quick_run, tmp_path
):
    output = tmp_path / "run"
    # Stopped on the way: neither the weights nor their average see it.
    quickly(output, MOMENTUM, "training.steps=3")
    quickly(output, MOMENTUM, resume=True)
    raw = load_arrays(output / LAST / "model.safetensors")
    expected = load_arrays(quick_run / LAST / "model.safetensors")
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
