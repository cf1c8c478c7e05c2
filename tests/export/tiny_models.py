"""Tiny random models, and what CTranslate2 and they make of sentences."""

import itertools

import numpy as np

import relative_attention as ra

WORDS = "a man rides red old bike on the street while two dogs run by".split()
SENTENCES = [
    "a man rides the bike",
    "two  red dogs",
    " the old street ",
    # What the training text lacked is spelt in bytes.
    "ein Häuschen 🚲\tby night",
    "<pad> </s> <unk> <0x41> ▁run",
    "dogs",
]


def train_vocabulary(size, words=WORDS):
    """A vocabulary that has these words whole, and all else as bytes."""
    lines = [" ".join(some) for some in itertools.permutations(words[:9], 3)]
    return ra.Vocabulary.train([*lines, " ".join(words)], size)


def make_model(rng, sharpness=1.3, **fields):
    """A random model, biases and normalization too, sure of what it says."""
    hidden_dim = fields.pop("hidden_dim", 15 if "key_dim" in fields else 14)
    fields = {
        "vocabulary_size": 281,
        "num_encoder_layers": 1,
        "num_decoder_layers": 1,
        "hidden_dim": hidden_dim,
        "intermediate_dim": 23,
        "num_heads": 2,
        "max_relative_position": 3,
        **fields,
    }
    model = ra.Transformer.from_preset("transformer_tiny_relative", **fields)
    for weight in model.weights:
        shape = weight.shape
        fan = hidden_dim if "embedding" in weight.path else shape[0]
        scale = 0.5 if len(shape) == 1 else sharpness * fan**-0.5
        array = rng.normal(size=shape) * scale
        weight.assign(array + ("gamma" in weight.path))
    return model


def as_line(text):
    """What `Translator` makes of the line feeds of a random model."""
    return " ".join(text.split("\n"))


def engine_of(folder, **arguments):
    import ctranslate2

    return ctranslate2.Translator(
        str(folder), intra_threads=1, inter_threads=1, **arguments
    )


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


def pad(rows):
    padded = np.zeros((len(rows), max(map(len, rows))), "int32")
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row
    return padded


def log_prob_errors(translator, engine):
    """Differences between our log-probabilities and CTranslate2's."""
    source_vocabulary = translator.source_vocabulary
    vocabulary = translator.vocabulary
    source_rows = source_vocabulary.encode(SENTENCES)
    target_rows = vocabulary.encode(SENTENCES[::-1])
    # An id 0 that comes out goes in again, as a zero vector.
    target_rows[2][1:1] = [0]
    ours = log_probs(translator, source_rows, target_rows)
    results = engine.score_batch(
        [source_vocabulary.pieces(row) for row in source_rows],
        [vocabulary.pieces(row) for row in target_rows],
    )
    return np.concatenate(
        [np.array(result.log_probs) for result in results]
    ) - np.concatenate(ours)
