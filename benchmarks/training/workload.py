"""What the benchmarks of training train: a corpus and a model.

TensorFlow is imported only where a model is made.
"""

import argparse
import os
import pathlib
import time
from collections.abc import Iterator

import numpy as np

import relative_attention as ra
from benchmarks.harness.peak_memory import largest_resident_set
from benchmarks.harness.results import Row

# In tokens, ends of sentences included; leaves out hardly a pair of Multi30k.
MAX_LENGTH = 100


def add_data_argument(parser: argparse.ArgumentParser) -> None:
    """Gives a command the option `--data`."""
    parser.add_argument(
        "--data",
        metavar="DIR",
        default=os.environ.get("RELATIVE_ATTENTION_DATA"),
        help="folder with train.en and train.de, plain or .gz (default: the "
        "environment variable RELATIVE_ATTENTION_DATA)",
    )


def find_corpus(folder: str | None) -> "ra.ParallelCorpus":
    """Finds English to German training text in a folder.

    Args:
        folder: A path, or `None` where no option names one.

    Returns:
        A `ParallelCorpus`, checked.

    Raises:
        InputError: If there is no such folder or text.
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


def prepare_corpus(
    corpus: "ra.ParallelCorpus",
    vocabulary_size: int,
    folder: str | pathlib.Path,
) -> tuple["ra.Vocabulary", "ra.TokenCorpus"]:
    """Learns a joint vocabulary and encodes the corpus, once a folder.

    Args:
        corpus: A `ParallelCorpus`.
        vocabulary_size: An integer.
        folder: The path of a folder for both.

    Returns:
        A pair of `Vocabulary` and `TokenCorpus`.
    """
    folder = pathlib.Path(folder)
    file = folder / "vocabulary.model"
    if not file.exists():
        lines = (line for pair in corpus for line in pair)
        ra.Vocabulary.train(lines, vocabulary_size).save(file)
    vocabulary = ra.Vocabulary.load(file)
    tokens = ra.TokenCorpus.prepare(
        corpus, vocabulary, vocabulary, MAX_LENGTH, folder / "tokens"
    )
    return vocabulary, tokens


def compile_model(
    preset: str, vocabulary_size: int, dtype: str, **overrides: int
) -> "ra.Transformer":
    """Returns a preset's model, compiled as the package trains it.

    Args:
        preset: A string, one of `presets()`.
        vocabulary_size: An integer.
        dtype: A string, the dtype policy.
        **overrides: Fields of `TransformerConfig`.
    """
    model = ra.Transformer.from_preset(
        preset, vocabulary_size=vocabulary_size, dtype=dtype, **overrides
    )
    model.compile(
        optimizer=ra.AveragingAdam(
            ra.TransformerSchedule(model.config.hidden_dim),
            ema_momentum=None,
            beta_1=0.9,
            beta_2=0.98,
            epsilon=1e-9,
        ),
        loss=ra.MaskedCrossEntropy(label_smoothing=0.1),
        metrics=[ra.Perplexity(), ra.TokenAccuracy()],
        # On a CPU, XLA compiles again for every length.
        jit_compile=False,
    )
    return model


def train_on_random_tokens(
    preset: str,
    dtype: str,
    vocabulary_size: int,
    shape: tuple[int, int],
    steps: int,
    **overrides: int,
) -> Row:
    """Trains a preset's model, which this process makes, for some updates.

    Args:
        preset: A string, one of `presets()`.
        dtype: A string, the dtype policy.
        vocabulary_size: An integer.
        shape: Sentences in a batch, and tokens in each on either side.
        steps: An integer, the updates that count. Two more come first.
        **overrides: Fields of `TransformerConfig`.

    Returns:
        Dict of `parameters`, `tokens_per_second` of each update,
        `start_seconds` until the end of the first, and `peak_memory_bytes`.
    """
    import keras
    import tensorflow as tf

    start = time.perf_counter()
    rng = np.random.default_rng(0)
    times: list[float] = []

    def batches() -> Iterator[tuple[dict[str, np.ndarray], np.ndarray]]:
        while True:
            ids = rng.integers(2, vocabulary_size, (3, *shape))
            source, target, labels = ids.astype(np.int32)
            yield (
                {"source_token_ids": source, "target_token_ids": target},
                labels,
            )

    model = compile_model(preset, vocabulary_size, dtype, **overrides)
    # As in every training, the graph does not know the length.
    spec = tf.TensorSpec((None, None), tf.int32)
    names = ("source_token_ids", "target_token_ids")
    model.fit(
        tf.data.Dataset.from_generator(
            batches, output_signature=(dict.fromkeys(names, spec), spec)
        ),
        steps_per_epoch=steps + 2,
        callbacks=[
            keras.callbacks.LambdaCallback(
                on_train_batch_end=lambda batch, logs: times.append(
                    time.perf_counter()
                )
            )
        ],
        shuffle=False,
        verbose=0,
    )
    # The first step makes the graph, and the second still takes memory.
    seconds = np.diff(times)[1:]
    return {
        "parameters": model.count_params(),
        "tokens_per_second": (2 * np.prod(shape) / seconds).tolist(),
        "start_seconds": times[0] - start,
        "peak_memory_bytes": largest_resident_set(),
    }


def _find_text(folder: str, name: str) -> str:
    """Returns the absolute path of a text, compressed or plain."""
    for file in (f"{name}.gz", name):
        path = pathlib.Path(folder, file)
        if path.is_file():
            return str(path.absolute())
    raise ra.InputError(f"No {name} or {name}.gz in the folder {folder}.")
