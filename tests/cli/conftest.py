"""A trained model that commands find loaded, and traced already."""

import pathlib
import random
import re
import shutil

import pytest

import relative_attention as ra
from relative_attention import saving
from relative_attention.models.weights import save_weights


def check_refused(result, message):
    """A command says in one line what is wrong, and prints nothing."""
    status, out, err = result
    assert (status, out) == (1, "")
    assert err.startswith("relative-attention: ") and err.count("\n") == 1
    assert re.search(message, err), err


@pytest.fixture(scope="session")
def model(trained, tmp_path_factory):
    """Folder of a model that talks at random.

    After a dozen steps a model has hardly learned more than to end at once;
    this one has initial weights.
    """
    folder = tmp_path_factory.mktemp("talkative") / "run"
    shutil.copytree(trained, folder)
    random.seed(5)
    new = ra.Transformer(ra.load_translator(trained).model.config)
    save_weights(new.weights, folder / "model.safetensors")
    return folder


@pytest.fixture(scope="session")
def translator(model):
    return ra.load_translator(model, num_beams=3, min_length=4, max_length=6)


@pytest.fixture
def load_once(model, translator, monkeypatch):
    """Commands find `model` loaded; a dict of the settings that they give."""
    load_other = saving.load_translator
    given = {}

    def load(directory, **settings):
        if directory != str(model):
            return load_other(directory, **settings)
        given.clear()
        given.update(settings)
        settings.pop("dtype", None)
        return ra.Translator(**{**vars(translator), **settings})

    monkeypatch.setattr("relative_attention.saving.load_translator", load)
    return given


@pytest.fixture(scope="session")
def pairs(corpus):
    """The test text: sources and targets."""
    return tuple(
        pathlib.Path(corpus, f"test.{side}").read_text("utf-8").splitlines()
        for side in ("en", "de")
    )
