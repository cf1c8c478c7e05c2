"""Engines that train on pairs for some minutes, and translate a test text.

`keras_tutorial` starts them. The first is a program like that of keras.io's
tutorial "English-to-Spanish translation with KerasHub", with its layers, sizes
and preparation of text; the code is our own. The other trains
`small_relative`.
"""

import inspect
import json
import os
import pathlib
import re
import sys
import time
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

from benchmarks.harness.engine import Turns
from relative_attention.data.lines import ParallelCorpus
from relative_attention.data.lines import batched
from relative_attention.data.lines import read_lines
from relative_attention.files import write_lines
from relative_attention.quiet_tensorflow import load_tensorflow_quietly

# The numbers of the tutorial.
_BATCH_SIZE = 64
_LENGTH = 40
_VOCABULARY_SIZE = 15_000
_EMBEDDING_DIM = 256
_INTERMEDIATE_DIM = 2048
_NUM_HEADS = 8
_DROPOUT = 0.5
_MARKS = ("[PAD]", "[UNK]", "[START]", "[END]")


# === The tutorial ===


def _tokenizer(texts: Sequence[str]) -> Any:
    """Returns a tokenizer of a side's word pieces."""
    import keras_hub
    import tensorflow as tf

    pieces = keras_hub.tokenizers.compute_word_piece_vocabulary(
        tf.data.Dataset.from_tensor_slices(list(texts)).batch(1000),
        vocabulary_size=_VOCABULARY_SIZE,
        reserved_tokens=list(_MARKS),
    )
    return keras_hub.tokenizers.WordPieceTokenizer(pieces, lowercase=False)


def _dataset(pairs: Sequence[tuple[str, str]], source: Any, target: Any) -> Any:
    """Returns batches of ids of 40 tokens, the same in every epoch."""
    import keras_hub
    import tensorflow as tf

    pack_source = keras_hub.layers.StartEndPacker(_LENGTH, pad_value=0)
    pack_target = keras_hub.layers.StartEndPacker(
        _LENGTH + 1,
        start_value=target.token_to_id("[START]"),
        end_value=target.token_to_id("[END]"),
        pad_value=0,
    )

    def ids_of(source_texts: Any, target_texts: Any) -> Any:
        ids = pack_target(target(target_texts))
        inputs = {
            "source": pack_source(source(source_texts)),
            "target": ids[:, :-1],
        }
        return inputs, ids[:, 1:]

    texts = tuple(list(side) for side in zip(*pairs, strict=True))
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(_BATCH_SIZE)
    dataset = dataset.map(ids_of, num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.shuffle(2048).prefetch(16).cache()


def _model() -> Any:
    """Returns the model, which is not compiled."""
    import keras
    import keras_hub

    def embed(ids: Any) -> Any:
        return keras_hub.layers.TokenAndPositionEmbedding(
            _VOCABULARY_SIZE, _LENGTH, _EMBEDDING_DIM
        )(ids)

    source, target = (
        keras.Input((None,), name=n) for n in ("source", "target")
    )
    encoded = keras_hub.layers.TransformerEncoder(
        _INTERMEDIATE_DIM, _NUM_HEADS
    )(embed(source))
    decoded = keras_hub.layers.TransformerDecoder(
        _INTERMEDIATE_DIM, _NUM_HEADS
    )(embed(target), encoded)
    decoded = keras.layers.Dropout(_DROPOUT)(decoded)
    scores = keras.layers.Dense(_VOCABULARY_SIZE, activation="softmax")(decoded)
    return keras.Model({"source": source, "target": target}, scores)


def _translator(
    model: Any, source: Any, target: Any
) -> Callable[[Sequence[str]], list[str]]:
    """Returns a greedy search without a cache, as in the tutorial.

    The tutorial translates sentence by sentence; batches have the same results
    in less time.
    """
    import keras_hub
    import tensorflow as tf

    pack = keras_hub.layers.StartEndPacker(_LENGTH, pad_value=0)
    end = target.token_to_id("[END]")

    @tf.function
    def search(source_ids: Any) -> Any:
        def score(prompt: Any, cache: Any, index: Any) -> Any:
            inputs = {"source": source_ids, "target": prompt}
            return model(inputs)[:, index - 1, :], None, cache

        prompt = tf.one_hot(
            tf.zeros_like(source_ids[:, 0]),
            _LENGTH,
            target.token_to_id("[START]"),
            0,
        )
        return keras_hub.samplers.GreedySampler()(
            score, prompt, index=1, stop_token_ids=[end]
        )

    def translate(texts: Sequence[str]) -> list[str]:
        ids = search(pack(source(list(texts))))
        lines = [str(line) for line in target.detokenize(ids)]
        return [
            re.sub(r"\[(PAD|START)\]", "", line.partition("[END]")[0]).strip()
            for line in lines
        ]

    return translate


def _run_tutorial(
    texts: dict[str, ParallelCorpus], minutes: float, folder: pathlib.Path
) -> tuple[dict[str, Any], Callable[[list[str]], list[str]]]:
    """Trains the tutorial's model; returns figures, and what translates."""
    import keras

    pairs = {
        part: [(source.lower(), target.lower()) for source, target in text]
        for part, text in texts.items()
    }
    source, target = (
        _tokenizer(side) for side in zip(*pairs["train"], strict=True)
    )
    train, val = (
        _dataset(pairs[part], source, target) for part in ("train", "val")
    )
    model = _model()
    model.compile(
        "rmsprop", loss="sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    steps, begin = 0, time.monotonic()

    def stop_in_time(batch: int, logs: Any) -> None:
        nonlocal steps
        steps += 1
        if time.monotonic() - begin >= 60 * minutes:
            model.stop_training = True

    model.fit(
        train,
        validation_data=val,
        # Until the time is up.
        epochs=sys.maxsize,
        shuffle=False,
        verbose=0,
        callbacks=[
            keras.callbacks.LambdaCallback(on_train_batch_end=stop_in_time)
        ],
    )
    seconds = time.monotonic() - begin
    # Without padding; with the ends of the target.
    tokens = sum(
        int((inputs["source"] != 0).numpy().sum() + (ids.numpy() != 0).sum())
        for inputs, ids in train
    )
    figures = {
        "parameters": model.count_params(),
        "steps": steps,
        "epochs": steps / len(train),
        "tokens_per_second": tokens * steps / len(train) / seconds,
        "lines": sum(
            bool(line.strip())
            for part in (_tokenizer, _dataset, _model, _translator)
            for line in inspect.getsource(part).splitlines()
        ),
    }

    translate_batch = _translator(model, source, target)

    def translate(lines: list[str]) -> list[str]:
        batches = batched((line.lower() for line in lines), _BATCH_SIZE)
        return [line for batch in batches for line in translate_batch(batch)]

    return figures, translate


# === This package ===


def _run_ours(
    texts: dict[str, ParallelCorpus], minutes: float, folder: pathlib.Path
) -> tuple[dict[str, Any], Callable[[list[str]], list[str]]]:
    """Trains `small_relative`; returns figures, and what translates."""
    import relative_attention as ra

    recipe = ra.find_recipe("small_relative").replace(
        {
            "data.source": texts["train"].source,
            "data.target": texts["train"].target,
            "data.validation_source": texts["val"].source,
            "data.validation_target": texts["val"].target,
            "training.minutes": minutes,
            # As the tutorial.
            "training.precision": "float32",
            "training.bleu_every": 0,
            "training.pictures": False,
        }
    )
    results = ra.train(recipe, folder / "ours", overwrite=True)
    figures = {
        name: results[name]
        for name in ("parameters", "steps", "tokens_per_second")
    }
    # `data pairs` and `train`.
    figures |= {"lines": 2}
    return figures, ra.load_translator(folder / "ours").translate


_RUNS = {"tutorial": _run_tutorial, "ours": _run_ours}


def main(
    engine: str,
    texts: dict[str, list[str]],
    minutes: float,
    folder: str,
    cores: list[int],
) -> None:
    """Trains, and writes translations of the test text when it is told to."""
    # TensorFlow starts as many threads as there are cores.
    os.sched_setaffinity(0, cores)
    turns = Turns()
    turns.wait()
    load_tensorflow_quietly()
    corpora = {part: ParallelCorpus(*paths) for part, paths in texts.items()}
    figures, translate = _RUNS[engine](corpora, minutes, pathlib.Path(folder))
    begin = time.monotonic()
    found = translate(list(read_lines(corpora["test"].source)))
    figures["translation_seconds"] = time.monotonic() - begin
    write_lines(pathlib.Path(folder, f"{engine}.txt"), found)
    turns.report(**figures)
    turns.wait()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
