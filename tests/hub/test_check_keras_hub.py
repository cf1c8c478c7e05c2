"""A KerasHub that is missing or too old is one line."""

import importlib.metadata

import pytest

import relative_attention as ra
from relative_attention.hub.check_keras_hub import check_keras_hub


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (None, "none is installed"),
        ("0.9.1", r"Received: 0\.9\.1"),
        ("0.21.0.dev1", r"Received: 0\.21\.0\.dev1"),
    ],
)
def test_what_is_needed_is_said(version, message, monkeypatch):
    def installed(name):
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr("importlib.metadata.version", installed)
    with pytest.raises(ra.InputError, match=message) as error:
        check_keras_hub()
    assert "pip install --upgrade 'keras-nlp>=" in str(error.value)
    assert "\n" not in str(error.value)
    version = "0.100"
    check_keras_hub()
