"""Trains a task on one replica and on two; prints JSON.

A process of its own, as devices are divided before TensorFlow starts. Run by
`test_fit.py`.
"""

import json

import keras
import numpy as np
import tensorflow as tf

import relative_attention as ra
from tests.hub.tiny_tasks import SOURCES
from tests.hub.tiny_tasks import TARGETS
from tests.hub.tiny_tasks import make_translator


def trained(strategy):
    with strategy.scope():
        task = ra.hub.TranslationLM.from_translator(make_translator())
        task.compile(optimizer=keras.optimizers.SGD(0.05, global_clipnorm=1.0))
    before = [np.array(weight) for weight in task.weights]
    data = tf.data.Dataset.from_tensor_slices((SOURCES, TARGETS)).batch(4)
    history = task.fit(data, verbose=0).history
    return before, [np.array(weight) for weight in task.weights], history


def greatest(arrays, others):
    return max(float(np.abs(a - b).max()) for a, b in zip(arrays, others))


def main():
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 2,
    )
    before, one, shown = trained(tf.distribute.get_strategy())
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    _, two, shown_of_two = trained(strategy)
    assert shown.keys() == shown_of_two.keys()
    vocabulary = make_translator().vocabulary
    tokens = [len(row) + 1 for row in vocabulary.encode(TARGETS)]
    results = {
        "change": greatest(one, before),
        "difference": greatest(one, two),
        "shown": max(
            abs(shown[name][0] - shown_of_two[name][0]) / abs(shown[name][0])
            for name in shown
            if shown[name][0]
        ),
        # Of the first batch's halves.
        "tokens": [sum(tokens[:2]), sum(tokens[2:4])],
    }
    print(json.dumps(results))


if __name__ == "__main__":
    main()
