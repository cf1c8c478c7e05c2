"""Checkpoints between two validations."""

import pytest

from relative_attention.runs.callbacks.save_interval import SaveInterval


@pytest.mark.parametrize(
    ("interval", "step", "seconds", "is_due"),
    [
        (SaveInterval(), 6, 1e9, False),
        (SaveInterval(steps=3), 6, 0.0, True),
        (SaveInterval(steps=3), 7, 1e9, False),
        (SaveInterval(minutes=0.5), 7, 29.0, False),
        (SaveInterval(minutes=0.5), 7, 30.0, True),
        (SaveInterval(steps=3, minutes=0.5), 7, 30.0, True),
    ],
    ids=str,
)
def test_checkpoint_is_due_by_steps_or_by_time(interval, step, seconds, is_due):
    assert interval.is_due(step, seconds) is is_due
