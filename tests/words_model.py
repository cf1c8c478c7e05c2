"""A small model of tokens, quicker than a Transformer, for tests of steps."""

import keras
import numpy as np

import relative_attention as ra
from relative_attention.layers.dropout import Dropout

VOCABULARY_SIZE = 13


@keras.saving.register_keras_serializable(package="tests")
class Words(ra.TrainableModel):
    """Says what a token tells of the next.

    Args:
        dropout: float.
        is_regularized: bool. Whether its weights have regularizers.
        activity_regularizer: as of a layer.
        **kwargs: arguments of `keras.Model`.
    """

    def __init__(
        self,
        dropout=0.0,
        is_regularized=False,
        activity_regularizer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        arguments = {"dtype": self.dtype_policy}
        self.embedding = keras.layers.Embedding(
            VOCABULARY_SIZE,
            4,
            embeddings_regularizer="l2" if is_regularized else None,
            **arguments,
        )
        self.dropout = Dropout(dropout, **arguments)
        self.dense = keras.layers.Dense(
            VOCABULARY_SIZE,
            kernel_regularizer="l1" if is_regularized else None,
            activity_regularizer=activity_regularizer,
            **arguments,
        )
        self.embedding.build()
        self.dense.build((None, None, 4))
        self.built = True

    def call(self, inputs, training=None):
        hidden = self.embedding(inputs["target_token_ids"])
        return self.dense(self.dropout(hidden, training=training))

    def symbolic_batch(self):
        ids = keras.KerasTensor((None, None), "int32")
        return {"source_token_ids": ids, "target_token_ids": ids}, ids


def tiny_transformer(**fields):
    """A `Transformer` of as many tokens, without dropout."""
    sizes = {
        "vocabulary_size": VOCABULARY_SIZE,
        "num_encoder_layers": 1,
        "num_decoder_layers": 1,
        "hidden_dim": 8,
        "intermediate_dim": 16,
        "num_heads": 2,
        "max_relative_position": 3,
        "dropout": 0.0,
    }
    return ra.Transformer.from_preset(
        "transformer_tiny_relative", **{**sizes, **fields}
    )


def batch_of(num_rows, length=5, seed=0):
    """Inputs, labels and weights of sentences that end at any place."""
    random = np.random.default_rng(seed)
    labels = random.integers(2, VOCABULARY_SIZE, (num_rows, length))
    source = random.integers(2, VOCABULARY_SIZE, (num_rows, length + 2))
    for row in range(num_rows):
        labels[row, random.integers(1, length + 1) :] = 0
        source[row, random.integers(1, length + 3) :] = 0
    inputs = {
        "source_token_ids": source.astype("int32"),
        "target_token_ids": np.pad(labels, ((0, 0), (1, 0)))[:, :-1].astype(
            "int32"
        ),
    }
    weights = (0.5 + random.random(labels.shape)).astype("float32")
    return inputs, labels.astype("int32"), weights


def dataset(*batches):
    """A `tf.data.Dataset` of batches, of unknown length and shapes."""
    import tensorflow as tf

    ids = tf.TensorSpec((None, None), tf.int32)
    signature = ({"source_token_ids": ids, "target_token_ids": ids}, ids)
    if len(batches[0]) == 3:
        signature += (tf.TensorSpec((None, None), tf.float32),)
    return tf.data.Dataset.from_generator(
        lambda: iter(batches), output_signature=signature
    )


def corpus_of(source_lengths, target_lengths=None, seed=0):
    """A `TokenCorpus` of random ids, in sentences of these lengths."""
    if target_lengths is None:
        target_lengths = source_lengths
    random = np.random.default_rng(seed)
    sides = {}
    for side, lengths in (
        ("source", source_lengths),
        ("target", target_lengths),
    ):
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        ids = random.integers(2, VOCABULARY_SIZE, offsets[-1], np.uint16)
        sides |= {f"{side}_ids": ids, f"{side}_offsets": offsets}
    return ra.TokenCorpus(
        **sides,
        line_numbers=np.arange(len(source_lengths)) + 1,
        num_empty=0,
        num_too_long=0,
    )
