"""Models of which it is known what a search should find, shared by all files.

A Transformer's search takes a second to become a graph and a few milliseconds
to run: `peaked_model` is one for all tests, which ask for the same numbers of
beams and results, so that few graphs are made. What a test tells of numbers
that are known by hand it tells of a `chain`, run eagerly.
"""

import functools
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

import relative_attention as ra


class Chain:
    """A model whose next token depends on the last one alone.

    It notes which sources it was given at each step, when run eagerly.

    Args:
        rows: dict of id to dict of next id to probability; id 0 is the start.
        vocabulary_size: int.
    """

    def __init__(self, rows, vocabulary_size=17):
        # What is not given is next to impossible, and to end even more so.
        table = np.full((vocabulary_size, vocabulary_size), 1e-12)
        table[:, 1] = 1e-30
        for last, following in rows.items():
            for token_id, probability in following.items():
                table[last, token_id] = probability
        # Logits need not be normalised.
        self.logits = tf.constant(np.log(table) + 3.0, tf.float32)
        self.sources = []

    def start_cache(self, source_token_ids):
        return {"source_token_ids": source_token_ids}

    def merge_cache(self, cache):
        return cache

    def decode_step(self, token_ids, cache, position, ancestors=None):
        if tf.executing_eagerly():
            assert len(token_ids) == len(cache["source_token_ids"])
            self.sources.append(cache["source_token_ids"].numpy().tolist())
        return tf.gather(self.logits, token_ids), cache


class Letters:
    """A vocabulary of one id a letter, from `a`, 2."""

    end_id = 1

    def encode(self, lines):
        return [[ord(c) - 95 for c in line if c != " "] for line in lines]

    def decode(self, rows):
        return ["".join(chr(int(i) + 95) for i in row if i > 1) for row in rows]


class Numbers:
    """A vocabulary of ids with blanks between."""

    end_id = 1

    def encode(self, lines):
        return [[int(word) for word in line.split()] for line in lines]

    def decode(self, rows):
        return [" ".join(str(i) for i in row if i > 1) for row in rows]


@pytest.fixture(scope="session")
def chain():
    return Chain


@pytest.fixture(scope="session")
def letters():
    return Letters


@pytest.fixture(scope="session")
def numbers():
    return Numbers


def make_peaked_model(seed=53, **fields):
    """Weights so large that what a token sees decides what comes next."""
    model = ra.Transformer.from_preset(
        "transformer_tiny_relative",
        **{
            "vocabulary_size": 13,
            "num_encoder_layers": 1,
            "num_decoder_layers": 1,
            "hidden_dim": 18,
            "intermediate_dim": 22,
            "num_heads": 3,
            "max_relative_position": 2,
            # So that nothing takes it for zero.
            "start_token_id": 4,
            **fields,
        },
    )
    rng = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        if len(variable.shape) > 1:
            fan_in = math.prod(variable.shape[:-1])
            scale = 0.5 if "embeddings" in variable.path else 2 * fan_in**-0.5
            variable.assign(rng.normal(0, scale, variable.shape))
    return model


@pytest.fixture(scope="session")
def make_model():
    """`make_model(seed, **fields)`: another model like `peaked_model`."""
    return make_peaked_model


@pytest.fixture(scope="session")
def peaked_model():
    """A model of which hypotheses end early, late and not at all."""
    return make_peaked_model()


@functools.cache
def _forward(model):
    ids = tf.TensorSpec((None, None), tf.int32)
    return tf.function(
        lambda source, target: keras.ops.log_softmax(
            model({"source_token_ids": source, "target_token_ids": target})
        ),
        input_signature=[ids, ids],
    )


@pytest.fixture(scope="session")
def log_probs():
    """`log_probs(model, sentence, prefixes)`, by one pass of the whole model.

    Of the token after every start of the prefixes: `(M, P)` ids give
    `(M, P + 1, V)`.
    """

    def log_probs(model, sentence, prefixes):
        inputs = np.array([[model.start_token_id, *ids] for ids in prefixes])
        sources = np.array([sentence] * len(inputs))
        log_probs = _forward(model)(
            tf.constant(sources, tf.int32), tf.constant(inputs, tf.int32)
        )
        return log_probs.numpy().astype(np.float64)

    return log_probs


@pytest.fixture(scope="session")
def log_probability(log_probs):
    """`log_probability(model, sentence, ids)` of a whole translation."""

    def log_probability(model, sentence, ids):
        (rows,) = log_probs(model, sentence, [ids[:-1]])
        return rows[np.arange(len(ids)), ids].sum()

    return log_probability


@pytest.fixture(scope="session")
def penalty():
    """The divisor of Wu et al. (2016), eq. 14, as it is printed."""
    return lambda length, alpha=0.6: (5 + length) ** alpha / (5 + 1) ** alpha


@pytest.fixture(scope="session")
def padded():
    """`padded(rows, extra=0)`: rows of ids as an int32 array."""

    def padded(rows, extra=0):
        width = max(map(len, rows)) + extra
        return np.array(
            [[*row, *[0] * (width - len(row))] for row in rows], np.int32
        )

    return padded


@pytest.fixture(scope="session")
def until_end():
    """`until_end(row)`: the ids of a result without what pads it."""

    def until_end(row):
        ids = np.trim_zeros(np.asarray(row), "b").tolist()
        return ids[: ids.index(1) + 1] if 1 in ids else ids

    return until_end


@pytest.fixture
def eagerly():
    """Searches run step by step: a graph takes seconds to be made."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def as_graph(eagerly):
    """Searches run as one graph, as they do by default."""
    tf.config.run_functions_eagerly(False)
