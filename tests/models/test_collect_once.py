"""Quantizing looks at the objects of other models once, not for each layer."""

import gc

import pytest

from relative_attention.models.collect_once import collect_once
from tests.models.conftest import build


@pytest.fixture
def frozen():
    """For each full pass of the collector, how many objects it left alone."""
    counts = []

    def note(phase, info):
        if phase == "start" and info["generation"] == 2:
            counts.append(gc.get_freeze_count())

    gc.callbacks.append(note)
    yield counts
    gc.callbacks.remove(note)


def test_one_pass_looks_at_everything(frozen):
    model = build()
    frozen.clear()
    model.quantize("int8")
    assert len(frozen) > 10
    assert all(frozen[:-1])
    assert frozen[-1] == gc.get_freeze_count() == 0


def test_what_somebody_froze_stays_frozen(frozen):
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        with collect_once():
            gc.collect()
        assert gc.get_freeze_count() == count > 0
    finally:
        gc.unfreeze()
