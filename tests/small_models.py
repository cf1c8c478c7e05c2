"""Small models, vocabularies and texts for the tests of every room."""

import io
import itertools
import unicodedata

import keras
import numpy as np
import sentencepiece

import relative_attention as ra
from relative_attention.layers.dropout import Dropout

# === Random models and translators ===

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


def pad(rows):
    padded = np.zeros((len(rows), max(map(len, rows))), "int32")
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row
    return padded


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


# === A model of tokens, and batches and corpora for it ===

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


# === Vocabularies whose pieces are known ===


def model_of(pieces, model_type="BPE", **kinds):
    """A vocabulary of these pieces, the first merged first.

    Args:
        pieces: the pieces of text; their ids begin with 3.
        model_type: what the model says that it is.
        **kinds: the kind of a piece that is no normal one, by its name.
    """
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
    spec = proto.trainer_spec
    spec.model_type = spec.ModelType.Value(model_type)
    spec.pad_id, spec.eos_id, spec.unk_id, spec.bos_id = 0, 1, 2, -1
    spec.vocab_size = 3 + len(pieces)
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.add_dummy_prefix = False
    proto.normalizer_spec.remove_extra_whitespaces = False
    kinds = {"<pad>": "CONTROL", "</s>": "CONTROL", "<unk>": "UNKNOWN", **kinds}
    for number, piece in enumerate(("<pad>", "</s>", "<unk>", *pieces)):
        proto.pieces.add(
            piece=piece,
            score=-number,
            type=proto.SentencePiece.Type.Value(kinds.get(piece, "NORMAL")),
        )
    return ra.Vocabulary(proto.SerializeToString())


def trained_model(lines, **options):
    """The bytes of a model that SentencePiece's own trainer makes."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


# === The same words in other forms, as files and clipboards give them ===

# Has accents to decompose.
CLEAN = "ein Häuschen by the old street"

FORMS = {
    "line_end": f"{CLEAN}\n",
    "windows_line_end": f"{CLEAN}\r\n",
    "double_blanks": CLEAN.replace(" ", "  "),
    "tab": CLEAN.replace(" ", "\t", 1),
    "line_end_inside": CLEAN.replace(" ", "\n", 1),
    "byte_order_mark": f"\ufeff{CLEAN}",
    "no_break_spaces": CLEAN.replace(" ", "\u00a0"),
    "wide_spaces": CLEAN.replace(" ", "\u2003").replace("the ", "the\u3000"),
    "mark_of_sentencepiece": CLEAN.replace(" ", "\u2581"),
    "decomposed": unicodedata.normalize("NFD", CLEAN),
    "blanks_around": f"  {CLEAN} \u202f",
    "zero_width_space": CLEAN.replace("str", "\u200bstr"),
    "soft_hyphen": CLEAN.replace("schen", "\u00adschen"),
    "control_character": CLEAN.replace("by", "b\x00y\x1b"),
    # Accents that follow something invisible are composed as well.
    "zero_width_inside_an_accent": CLEAN.replace("ä", "a\u200b\u0308"),
}
