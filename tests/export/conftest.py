"""Translators of tiny models, for every export to CTranslate2."""

import numpy as np
import pytest

import relative_attention as ra
from tests.small_models import make_model
from tests.small_models import pad
from tests.small_models import train_vocabulary


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


def log_probs(translator, source_rows, target_rows):
    """What our model gives to each token of the targets, and to their ends."""
    model = translator.model
    start = model.config.start_token_id
    end = translator.source_vocabulary.end_id
    logits = model(
        {
            "source_token_ids": pad([[*row, end] for row in source_rows]),
            "target_token_ids": pad([[start, *row] for row in target_rows]),
        }
    )
    result = []
    for row, row_logits in zip(target_rows, np.asarray(logits, "float64")):
        labels = [*row, 1]
        chosen = row_logits[np.arange(len(labels)), labels]
        normalizers = np.log(np.exp(row_logits[: len(labels)]).sum(axis=-1))
        result.append(chosen - normalizers)
    return result
