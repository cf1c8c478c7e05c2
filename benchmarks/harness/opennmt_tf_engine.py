"""Engines that train and translate with OpenNMT-tf, in its own environment.

`training_speed`, `translation_speed` and `opennmt_tf_quality` start them, and
write their configuration, weights and texts.
"""

import json
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import opennmt
import opennmt.training
import tensorflow as tf

from benchmarks.harness.engine import Turns

# A translation may be this much longer than its source, as in the package.
_MAX_EXTRA_LENGTH = 50
_EPSILON = 1e-6

# Ids `(B, S)` and lengths `(B,)` to lengths `(B,)` and ids `(B, T)`.
Search = Callable[[np.ndarray, np.ndarray], tuple[tf.Tensor, tf.Tensor]]


def make_model(**sizes: Any) -> opennmt.models.Transformer:
    """Returns a model of the architecture of this package's.

    Attention and output have no bias here, so they have none there.

    Args:
        **sizes: Arguments of `Transformer`.
    """
    width = sizes["num_units"]
    return opennmt.models.Transformer(
        source_inputter=opennmt.inputters.WordEmbedder(embedding_size=width),
        target_inputter=opennmt.inputters.WordEmbedder(embedding_size=width),
        mha_bias=False,
        output_layer_bias=False,
        position_encoder_class=None,
        share_embeddings=opennmt.models.EmbeddingsSharingLevel.ALL,
        **sizes,
    )


# === Training in turns ===


class StepTimer(opennmt.training.TrainingStats):
    """Reports what OpenNMT-tf logs, and waits for the next turn.

    The trainer calls `log` every `save_summary_steps` and then sets counters
    and clock back, so that waiting is not counted.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._turns = Turns()
        self._wait()
        super().__init__(*args, **kwargs)

    def log(self, is_master: bool = True) -> None:
        summary = self.get_last_summary()
        steps = summary["step"] - self._last_logged_step
        seconds = steps / summary["steps_per_sec"]
        tokens = sum(summary["words_per_sec"].values()) * seconds
        super().log(is_master)
        self._turns.report(steps=steps, seconds=seconds, tokens=tokens)
        self._wait()

    def _wait(self) -> None:
        """Waits for a turn; the process ends when there is none."""
        if not self._turns.wait():
            # Before OpenNMT-tf writes its last checkpoint, which would count
            # as memory of training.
            raise SystemExit


def train(sizes: dict[str, Any], config: dict[str, Any]) -> None:
    """Trains by a configuration of OpenNMT-tf whenever it is its turn."""
    opennmt.training.TrainingStats = StepTimer
    opennmt.Runner(make_model(**sizes), config).train()


# === Training to the end ===


def train_and_translate(
    sizes: dict[str, Any],
    config: dict[str, Any],
    features: str,
    predictions: str,
) -> None:
    """Trains, or resumes the last checkpoint, and translates.

    Args:
        sizes: A dict, see `make_model`.
        config: A dict, the configuration of OpenNMT-tf.
        features: The path of a text of ids.
        predictions: The path of the file to write.
    """
    # OpenNMT-tf logs its progress by TensorFlow.
    tf.get_logger().setLevel("INFO")
    runner = opennmt.Runner(make_model(**sizes), config)
    averaged = runner.train()
    runner.infer(
        features, predictions_file=predictions, checkpoint_path=averaged
    )


# === Translating in turns ===


def load_model(
    sizes: dict[str, Any], weights: str, num_beams: int, length_penalty: float
) -> Any:
    """Returns OpenNMT-tf's model with the weights of `translation_speed`."""
    vocabulary = str(pathlib.Path(weights).with_name("vocabulary"))
    model = make_model(**sizes)
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


def translate_rows(
    search: Search, rows: list[list[int]], batch_size: int
) -> tuple[float, int]:
    """Returns the seconds and the number of tokens of all translations."""
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


def translate(
    sizes: dict[str, Any], weights: str, sentences: str, length_penalty: float
) -> None:
    """Translates the text whenever it is the turn of this process.

    Args:
        sizes: A dict, see `make_model`.
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
            model = load_model(sizes, weights, beams, length_penalty)
            searches[beams] = compile_search(model)
        chosen = rows[: order["num_sentences"]]
        seconds, num_tokens = translate_rows(
            searches[beams], chosen, order["batch_size"]
        )
        turns.report(seconds=[seconds], num_tokens=num_tokens)


_TASKS: dict[str, Callable[..., None]] = {
    "train": train,
    "train_and_translate": train_and_translate,
    "translate": translate,
}

if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    _TASKS[job.pop("task")](**job)
