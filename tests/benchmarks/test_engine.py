"""Engines are processes that work when it is their turn."""

import sys

import pytest

from benchmarks.harness.engine import EngineError
from benchmarks.harness.engine import engine_command
from benchmarks.harness.engine import running_engines

MODULE = "tests.benchmarks.counting_engine"


def test_engines_take_turns_and_end(tmp_path):
    commands = {
        "steady": engine_command(MODULE, {"fails_at": 0}),
        "weak": engine_command(MODULE, {"fails_at": 2}),
    }
    with running_engines(commands, tmp_path, {}) as engines:
        steady, weak = engines.values()
        assert steady.take_turn() == {"count": 1, "order": "go"}
        assert weak.take_turn("one") == {"count": 1, "order": "one"}
        assert steady.take_turn("two") == {"count": 2, "order": "two"}
        # What it said last is in the error.
        with pytest.raises(EngineError, match="no more turns"):
            weak.take_turn()
        # A process of Python has a few megabytes at least.
        if sys.platform == "linux":
            assert steady.peak_memory() > 1e6
        assert steady.finish() > 1e6
    # The context has ended what had not ended.
    with pytest.raises((EngineError, ValueError)):
        weak.take_turn()


def test_another_python_starts_without_the_paths_of_this_one():
    command = engine_command("a.b", {"c": 1}, "/there/bin/python")
    assert command == ["/there/bin/python", "-E", "-m", "a.b", '{"c": 1}']
