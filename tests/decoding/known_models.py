"""Models of which it is known what a search should find, and vocabularies.

What a test tells of numbers that are known by hand it tells of a `Chain`, run
eagerly. Others take a small Transformer whose weights are so large that what a
token sees decides what comes next (`make_model`).
"""

import functools
import math

import keras
import numpy as np
import tensorflow as tf

import relative_attention as ra
from tests.small_models import pad

SENTENCES = [[5, 11, 2, 8, 1], [3, 1], [12, 4, 4, 9, 7, 6, 1]]


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
        # Logits need not be normalized.
        self.logits = tf.constant(np.log(table) + 3.0, tf.float32)
        self.sources = []

    def start_cache(self, source_token_ids):
        return {"source_token_ids": source_token_ids}

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


def make_model(seed=53, **fields):
    """A model of which hypotheses end early, late and not at all."""
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


@functools.cache
def _forward(model):
    ids = tf.TensorSpec((None, None), tf.int32)
    return tf.function(
        lambda source, target: keras.ops.log_softmax(
            model({"source_token_ids": source, "target_token_ids": target})
        ),
        input_signature=[ids, ids],
    )


def log_probs(model, sentence, prefixes):
    """Log-probabilities of the next token, by one pass of the whole model.

    Of the token after every start of the prefixes: `(M, P)` ids give
    `(M, P + 1, V)`. Of an ensemble it is the logarithm of the mean.
    """
    if isinstance(model, ra.Ensemble):
        members = [log_probs(m, sentence, prefixes) for m in model.models]
        return np.log(np.mean(np.exp(members), axis=0))
    inputs = np.array([[model.start_token_id, *ids] for ids in prefixes])
    sources = np.array([sentence] * len(inputs))
    found = _forward(model)(
        tf.constant(sources, tf.int32), tf.constant(inputs, tf.int32)
    )
    return found.numpy().astype(np.float64)


def penalty(length, alpha=0.6):
    """The divisor of Wu et al. (2016), eq. 14, as it is printed."""
    return (5 + length) ** alpha / (5 + 1) ** alpha


def padded(rows, extra=0):
    """Rows of ids as an int32 array, padded with zeros."""
    return np.pad(pad(rows), ((0, 0), (0, extra)))


def until_end(row):
    """The ids of a result without what pads it."""
    ids = np.trim_zeros(np.asarray(row), "b").tolist()
    return ids[: ids.index(1) + 1] if 1 in ids else ids


def arrays(results):
    return {name: np.asarray(value) for name, value in results.items()}


def beam_search(model, rows, **settings):
    """As `ra.beam_search`, by three beams and with arrays as results.

    As few other numbers as can be: each is a graph of its own.
    """
    settings = {"num_beams": 3, "num_results": 3, "max_length": 10, **settings}
    return arrays(ra.beam_search(model, rows, **settings))
