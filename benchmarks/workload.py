"""What the benchmarks train: a corpus, and a model as the package trains it.

TensorFlow is imported only where a model is made.
"""

import os
import pathlib

import relative_attention as ra

# In tokens, ends of sentences included; leaves out hardly a pair of Multi30k.
_MAX_LENGTH = 100


def add_data_argument(parser):
    """Give a command the option `--data`."""
    parser.add_argument(
        "--data",
        metavar="DIR",
        default=os.environ.get("RELATIVE_ATTENTION_DATA"),
        help="folder with train.en and train.de, plain or .gz (default: the "
        "environment variable RELATIVE_ATTENTION_DATA)",
    )


def find_corpus(folder):
    """English to German training text of a folder, a `ParallelCorpus`.

    Raises:
        InputError: if there is no such folder or text.
    """
    if not folder:
        raise ra.InputError(
            "No corpus given. Pass `--data DIR`, or set the environment "
            "variable RELATIVE_ATTENTION_DATA to a folder with train.en and "
            "train.de, plain or .gz."
        )
    corpus = ra.ParallelCorpus(
        _find_text(folder, "train.en"), _find_text(folder, "train.de")
    )
    corpus.check()
    return corpus


def prepare(corpus, vocabulary_size, folder):
    """Learn a joint vocabulary and encode the corpus; done once a folder.

    Returns:
        Pair of `Vocabulary` and `TokenCorpus`.
    """
    folder = pathlib.Path(folder)
    file = folder / "vocabulary.model"
    if not file.exists():
        lines = (line for pair in corpus for line in pair)
        ra.Vocabulary.train(lines, vocabulary_size).save(file)
    vocabulary = ra.Vocabulary.load(file)
    tokens = ra.TokenCorpus.prepare(
        corpus, vocabulary, vocabulary, _MAX_LENGTH, folder / "tokens"
    )
    return vocabulary, tokens


def compiled_model(preset, vocabulary_size, dtype):
    """A preset's model, compiled as the package trains it."""
    import keras

    model = ra.Transformer.from_preset(
        preset, vocabulary_size=vocabulary_size, dtype=dtype
    )
    model.compile(
        optimizer=keras.optimizers.Adam(
            ra.TransformerSchedule(model.config.hidden_dim),
            beta_1=0.9,
            beta_2=0.98,
            epsilon=1e-9,
        ),
        loss=ra.MaskedCrossEntropy(label_smoothing=0.1),
        metrics=[ra.Perplexity(), ra.TokenAccuracy()],
        # On a CPU, XLA compiles anew for every length.
        jit_compile=False,
    )
    return model


def _find_text(folder, name):
    for file in (f"{name}.gz", name):
        path = pathlib.Path(folder, file)
        if path.is_file():
            return str(path)
    raise ra.InputError(f"No {name} or {name}.gz in the folder {folder}.")
