"""What tests of corpora share: a vocabulary of numbers, and no waiting."""

import os

import pytest


class Digits:
    """A vocabulary whose ids are the numbers that a text has as words.

    It counts the calls of `encode`, or fails at them.
    """

    end_id = 1

    def __init__(self, size=300, model=b"digits", error=None):
        self.model = model
        self.num_calls = 0
        self._size = size
        self._error = error

    def __len__(self):
        return self._size

    def encode(self, lines):
        self.num_calls += 1
        if self._error is not None:
            raise self._error
        return [[int(word) for word in line.split()] for line in lines]


@pytest.fixture(scope="session")
def digits():
    return Digits


@pytest.fixture
def no_fsync(monkeypatch):
    """Files of tests need not outlive a loss of power, nor wait for a disk."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
