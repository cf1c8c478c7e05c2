"""An engine that translates with OpenNMT-tf, in its own environment.

`translation_speed` starts it, and writes its weights and sentences.
"""

import json
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.harness.opennmt_tf_model import make_model
from benchmarks.harness.turns import Turns

# A translation may be this much longer than its source, as in the package.
_MAX_EXTRA_LENGTH = 50
_EPSILON = 1e-6

# Ids `(B, S)` and lengths `(B,)` to lengths `(B,)` and ids `(B, T)`.
Search = Callable[[np.ndarray, np.ndarray], tuple[tf.Tensor, tf.Tensor]]


def load_model(weights: str, num_beams: int, length_penalty: float) -> Any:
    """Returns OpenNMT-tf's model with the weights of `write_model`.

    Args:
        weights: The path of the weights.
        num_beams: An integer.
        length_penalty: A float.
    """
    vocabulary = str(pathlib.Path(weights).with_name("vocabulary"))
    model = make_model()
    model.initialize(
        {"source_vocabulary": vocabulary, "target_vocabulary": vocabulary},
        params={"beam_width": num_beams, "length_penalty": length_penalty},
    )
    model.create_variables()
    for path, array in np.load(weights).items():
        node = model
        for name in path.split("/")[1:]:
            node = node._lookup_dependency(name)
        node.assign(array)
    for module in model.submodules:
        if isinstance(module, tf.keras.layers.LayerNormalization):
            module.epsilon = _EPSILON
    return model


def compile_search(model: Any) -> Search:
    """Returns the search of a model as one graph."""

    @tf.function(
        input_signature=[
            tf.TensorSpec((None, None), tf.int64),
            tf.TensorSpec((None,), tf.int32),
        ]
    )
    def search(ids: tf.Tensor, length: tf.Tensor) -> tuple:
        model.params["maximum_decoding_length"] = (
            tf.shape(ids)[1] + _MAX_EXTRA_LENGTH
        )
        _, predictions = model({"ids": ids, "length": length})
        return predictions["length"][:, 0], predictions["tokens"][:, 0]

    return search


def translate(
    search: Search, rows: list[list[int]], batch_size: int
) -> tuple[float, int]:
    """Translates sentences in batches.

    Args:
        search: What `compile_search` returned.
        rows: A list of lists of ids.
        batch_size: An integer.

    Returns:
        A pair of seconds and the number of tokens of all translations.
    """
    num_tokens = 0
    start = time.perf_counter()
    for first in range(0, len(rows), batch_size):
        batch = rows[first : first + batch_size]
        lengths = [len(row) for row in batch]
        ids = np.zeros((len(batch), max(lengths)), np.int64)
        for number, row in enumerate(batch):
            ids[number, : len(row)] = row
        found, _ = search(ids, np.array(lengths, np.int32))
        num_tokens += int(found.numpy().sum()) + len(batch)
    return time.perf_counter() - start, num_tokens


def main(weights: str, sentences: str, length_penalty: float) -> None:
    """Translates the text whenever it is the turn of this process.

    Args:
        weights: The path of the weights.
        sentences: The path of a JSON list of lists of ids.
        length_penalty: A float.
    """
    with open(sentences) as file:
        rows = json.load(file)
    searches: dict[int, Search] = {}
    turns = Turns()
    while line := turns.wait():
        order = json.loads(line)
        beams = order["num_beams"]
        if beams not in searches:
            model = load_model(weights, beams, length_penalty)
            searches[beams] = compile_search(model)
        chosen = rows[: order["num_sentences"]]
        seconds, num_tokens = translate(
            searches[beams], chosen, order["batch_size"]
        )
        turns.report(seconds=seconds, num_tokens=num_tokens)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
