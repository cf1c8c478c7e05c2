"""A tiny model that is served, once for all tests."""

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.serve import load_models
from tests.serve.client import client_of
from tests.small_models import make_model
from tests.small_models import train_vocabulary

SENTENCES = [
    "a man rides the bike",
    "two  red dogs",
    "dogs",
    "",
    "ein Häuschen 🚲\tby night",
    "a man a man a man rides the old red bike on the street",
]
RECIPE = """\
description: Captions to German
data: {source: train.en.gz, target: train.de.gz}
"""
LICENSE = """\
# License: free

Learned from [captions](https://example.org) by **many**, and
passed on with:

> Captions of
> many.
"""


def save_model(folder, seed=1803, **settings):
    """Writes the folder of a random model, and returns its translator."""
    translator = ra.Translator(
        make_model(np.random.default_rng(seed)),
        train_vocabulary(281),
        **{"num_beams": 3, "max_extra_length": 5, **settings},
    )
    ra.save_translator(translator, folder)
    return translator


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "mine"
    save_model(folder)
    (folder / "recipe.yaml").write_text(RECIPE)
    (folder / "LICENSE.md").write_text(LICENSE)
    (folder / "examples.txt").write_text("two dogs\n\n dogs \n" * 9)
    return folder


@pytest.fixture(scope="session")
def models(model_folder):
    """The tiny model, loaded and warm, as a server has it."""
    return load_models({"mine": model_folder})


@pytest.fixture(scope="session")
def translator(models):
    return models["mine"].translator


@pytest.fixture(scope="session")
def client(models):
    """A client of a server with the usual settings."""
    with client_of(models) as client:
        yield client
