"""A small Transformer and a batch for it."""

import functools
import random

import numpy as np
import pytest

from relative_attention.models import Transformer
from relative_attention.models import TransformerConfig

SIZES = {
    "vocabulary_size": 23,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "hidden_dim": 12,
    "intermediate_dim": 17,
    "num_heads": 3,
    "max_relative_position": 2,
    "max_length": 19,
    "dropout": 0.0,
}


def build(dtype=None, **fields):
    # Weights are functions of the fields alone.
    random.seed(1803)
    model = Transformer(TransformerConfig(**{**SIZES, **fields}), dtype=dtype)
    rng = np.random.default_rng(1803)
    for weight in model.trainable_weights:
        noise = 0.3 * rng.normal(size=weight.shape)
        weight.assign(np.array(weight) + noise)
    return model


@pytest.fixture
def build_model():
    """A model of which no weight has kept its initial value."""
    return build


@pytest.fixture(scope="session")
def shared_model():
    """The same model whenever the fields are the same; not to be changed."""
    return functools.cache(build)


@pytest.fixture
def batch(rng):
    """Two sentences, the first padded on both sides of the translation."""
    source = rng.integers(2, 23, size=(2, 7)).astype("int32")
    target = rng.integers(2, 23, size=(2, 5)).astype("int32")
    source[0, 4:] = [1, 0, 0]
    source[1, -1] = 1
    labels = target.copy()
    labels[0, 3:] = [1, 0]
    labels[1, -1] = 1
    target = np.pad(labels[:, :-1], ((0, 0), (1, 0)))
    return {"source_token_ids": source, "target_token_ids": target}, labels
