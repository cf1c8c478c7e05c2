"""Trains a task on one replica and on two; prints JSON.

A process of its own, as devices are divided before TensorFlow starts. Run by
`test_fit.py`.
"""

import json

import keras
import numpy as np
import tensorflow as tf

from tests.hub.tiny_tasks import SOURCES
from tests.hub.tiny_tasks import TARGETS
from tests.hub.tiny_tasks import make_task


def trained(strategy):
    """The weights after an epoch, with what `fit` showed behind them."""
    with strategy.scope():
        task = make_task()
        task.compile(optimizer=keras.optimizers.SGD(0.05, global_clipnorm=1.0))
    # The halves of a batch have unequal numbers of tokens.
    data = tf.data.Dataset.from_tensor_slices((SOURCES, TARGETS)).batch(4)
    history = task.fit(data, verbose=0).history
    return [*map(np.array, task.weights), history]


def main():
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 2,
    )
    *one, shown = trained(tf.distribute.get_strategy())
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    *two, shown_of_two = trained(strategy)
    difference = max(np.abs(a - b).max() for a, b in zip(one, two))
    results = [float(difference), shown, shown_of_two]
    print(json.dumps(results))


if __name__ == "__main__":
    main()
