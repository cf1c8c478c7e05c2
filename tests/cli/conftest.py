"""A trained model that commands find loaded, and traced already."""

import pathlib

import pytest

import relative_attention as ra
from relative_attention import saving


@pytest.fixture(scope="session")
def shared_translator(trained):
    """The translator of the shared run; its model keeps what it traced."""
    return ra.load_translator(trained)


@pytest.fixture
def load_once(shared_translator, trained, monkeypatch):
    """Commands take the shared run's model as it is loaded already."""
    load_other = saving.load_translator

    def load(directory, **settings):
        if pathlib.Path(directory) != trained:
            return load_other(directory, **settings)
        return ra.Translator(**{**vars(shared_translator), **settings})

    monkeypatch.setattr("relative_attention.saving.load_translator", load)
