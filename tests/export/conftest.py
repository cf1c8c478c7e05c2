"""Translators of tiny models, for every export to CTranslate2."""

import pytest

import relative_attention as ra
from tests.export.tiny_models import make_model
from tests.export.tiny_models import train_vocabulary


@pytest.fixture(scope="session")
def vocabularies():
    return {size: train_vocabulary(size) for size in (281, 283)}


@pytest.fixture
def make_translator(rng, vocabularies):
    def make(num_beams=1, **fields):
        settings = {
            name: fields.pop(name)
            for name in ("max_source_length", "max_extra_length")
            if name in fields
        }
        source_size = fields.get("source_vocabulary_size", 281)
        return ra.Translator(
            make_model(rng, **fields),
            vocabularies[281],
            source_vocabulary=vocabularies[source_size],
            num_beams=num_beams,
            length_penalty=0.0,
            **{"max_extra_length": 5, **settings},
        )

    return make
