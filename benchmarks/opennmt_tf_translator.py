"""Translates with OpenNMT-tf in turns, in OpenNMT-tf's own environment.

Started by `translation_speed.py`, which writes weights and sentences.
"""

import json
import pathlib
import sys
import time

import numpy as np
import opennmt_tf_contestant
import tensorflow as tf
import turns


def load_model(weights, num_beams, length_penalty):
    """The model with the weights of `opennmt_tf_peer.write_model`."""
    vocabulary = str(pathlib.Path(weights).with_name("vocabulary"))
    model = opennmt_tf_contestant.make_model()
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
            module.epsilon = 1e-6
    return model


def compiled(model):
    """Translations `(B, T)` of ids `(B, S)` and their lengths `(B,)`."""

    @tf.function(
        input_signature=[
            tf.TensorSpec((None, None), tf.int64),
            tf.TensorSpec((None,), tf.int32),
        ]
    )
    def translate(ids, length):
        # Translations here may be 50 tokens longer than their source.
        model.params["maximum_decoding_length"] = tf.shape(ids)[1] + 50
        _, predictions = model({"ids": ids, "length": length})
        return predictions["length"][:, 0], predictions["tokens"][:, 0]

    return translate


def main(weights, sentences, length_penalty):
    with open(sentences) as file:
        rows = json.load(file)
    searches = {}
    my_turns = turns.Turns()
    while order := my_turns.wait():
        order = json.loads(order)
        beams = order["num_beams"]
        if beams not in searches:
            model = load_model(weights, beams, length_penalty)
            searches[beams] = compiled(model)
        chosen = rows[: order["num_sentences"]]
        size = order["batch_size"]
        num_tokens = 0
        start = time.perf_counter()
        for first in range(0, len(chosen), size):
            batch = chosen[first : first + size]
            lengths = [len(row) for row in batch]
            ids = np.zeros((len(batch), max(lengths)), np.int64)
            for number, row in enumerate(batch):
                ids[number, : len(row)] = row
            found, _ = searches[beams](ids, np.array(lengths, np.int32))
            num_tokens += int(found.numpy().sum()) + len(batch)
        seconds = time.perf_counter() - start
        my_turns.report(seconds=seconds, num_tokens=num_tokens)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
