"""Folders of tiny random models: some share a vocabulary, one does not."""

import numpy as np
import pytest

import relative_attention as ra
from tests.export.tiny_models import make_model
from tests.export.tiny_models import train_vocabulary

SENTENCES = ["a man rides the bike", "two red dogs", "", "the old street"]


@pytest.fixture(scope="session")
def several(tmp_path_factory):
    """Folder of the models `a`, `b`, `c`, and `stranger`; not to be changed.

    `stranger` has as many pieces as the others, but other ones.
    """
    folder = tmp_path_factory.mktemp("several")
    vocabulary = train_vocabulary(281)
    other = train_vocabulary(281, words="ein zwei drei vier fünf rot".split())
    assert len(other) == len(vocabulary)
    rng = np.random.default_rng(5)
    for name, pieces, fields in (
        ("a", vocabulary, {}),
        ("b", vocabulary, {"max_relative_position": 1}),
        ("c", vocabulary, {"hidden_dim": 12, "num_decoder_layers": 2}),
        ("stranger", other, {}),
    ):
        translator = ra.Translator(
            make_model(rng, **fields),
            pieces,
            # Other settings in each: those of the first count.
            num_beams=2 if name == "a" else 3,
            max_extra_length=4,
        )
        ra.save_translator(translator, folder / name)
    return folder


@pytest.fixture(scope="session")
def joined(several):
    """The translator of `a`, `b` and `c` together."""
    return ra.load_translator([several / name for name in "abc"])
