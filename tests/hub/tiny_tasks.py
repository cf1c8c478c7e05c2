"""Tiny translators, with one vocabulary or two, and pairs to train on."""

import numpy as np

import relative_attention as ra
from tests.export.tiny_models import SENTENCES
from tests.export.tiny_models import make_model
from tests.export.tiny_models import pad
from tests.export.tiny_models import train_vocabulary

# Of unequal lengths, so that parts of a batch have unequal numbers of tokens.
SOURCES = [
    "a man rides the bike",
    "dogs",
    "two red dogs run by the old street on a bike",
    "the man",
    "a dog",
    "old bike on the street",
    "run",
]
TARGETS = [
    "the bike rides a man by the old street",
    "run",
    "red",
    "a man on a bike while two dogs run by",
    "dogs",
    "two",
    "the red street",
]
BLANK = [*SENTENCES, "", "  "]


def make_translator(separate=False, **fields):
    """A `Translator` of a random model; not as sure of its ends as of words."""
    vocabulary = train_vocabulary(281)
    source = None
    if separate:
        source = train_vocabulary(290, words="ein zwei drei vier rot".split())
        fields = {
            "source_vocabulary_size": len(source),
            "share_embeddings": "target",
            **fields,
        }
    fields = {"vocabulary_size": len(vocabulary), "dropout": 0.0, **fields}
    return ra.Translator(
        make_model(np.random.default_rng(5), **fields),
        vocabulary,
        source_vocabulary=source,
        num_beams=3,
        length_penalty=0.8,
        max_extra_length=4,
        max_source_length=60,
    )


def make_task(separate=False, **fields):
    return ra.hub.TranslationLM.from_translator(
        make_translator(separate, **fields)
    )


def id_batches(translator, size, sources=SOURCES, targets=TARGETS):
    """Batches of ids, inputs and labels, as `Transformer.fit` takes them."""
    source_rows = translator.source_vocabulary.encode(sources)
    target_rows = translator.vocabulary.encode(targets)
    start = translator.model.start_token_id
    for first in range(0, len(sources), size):
        rows = slice(first, first + size)
        labels = [[*row, 1] for row in target_rows[rows]]
        yield (
            {
                "source_token_ids": pad(
                    [[*row, 1] for row in source_rows[rows]]
                ),
                "target_token_ids": pad([[start, *row[:-1]] for row in labels]),
            },
            pad(labels),
        )


def id_dataset(translator, size):
    import tensorflow as tf

    ids = tf.TensorSpec((None, None), tf.int32)
    return tf.data.Dataset.from_generator(
        lambda: id_batches(translator, size),
        output_signature=(
            {"source_token_ids": ids, "target_token_ids": ids},
            ids,
        ),
    )
