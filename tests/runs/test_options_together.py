"""A run with all that changes what it learns from, and how, at once."""

import numpy as np
import pytest

from relative_attention.models.weights import load_arrays

# Four updates are a pass: the run ends after two of them.
ALL = (
    "data.join=3",
    "training.average_epochs=2",
    "training.steps=null",
    "training.epochs=2",
    "training.batch_tokens=2048",
    "training.effective_batch_tokens=4096",
    "training.validate_every=3",
)


@pytest.mark.large
def test_resumed_run_equals_uninterrupted_run(quickly, tmp_path):
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    quickly(whole, *ALL)
    # In the first pass, and in the second.
    for steps in (1, 6):
        quickly(
            resumed,
            *ALL,
            f"training.steps={steps}",
            resume="auto",
        )
    quickly(resumed, *ALL, resume=True)
    ends = [f"epochs/step-{step:08}.safetensors" for step in (4, 8)]
    last = [
        f"checkpoints/step-00000008/{name}.safetensors"
        for name in ("model", "training")
    ]
    for name in ("model.safetensors", *ends, *last):
        expected = load_arrays(whole / name)
        for key, array in load_arrays(resumed / name).items():
            np.testing.assert_array_equal(array, expected[key], err_msg=key)
    first, second = (load_arrays(whole / name) for name in ends)
    for key, array in load_arrays(whole / "model.safetensors").items():
        mean = (first[key].astype("float64") + second[key]) / 2
        np.testing.assert_array_equal(array, mean.astype("float32"))
