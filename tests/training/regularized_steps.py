"""Steps with regularizers on one replica and on two; prints JSON.

Run by `test_regularized_replicas.py`, a process for each number of replicas,
as devices are divided before TensorFlow starts.
"""

import json
import sys

import keras
import numpy as np
import tensorflow as tf

import relative_attention as ra

V = 13


class Words(ra.TrainableModel):
    """What a token says of the next, regularized."""

    def __init__(self, activity_regularizer=None):
        super().__init__()
        self.embedding = keras.layers.Embedding(
            V, 4, embeddings_regularizer=keras.regularizers.L2(0.1)
        )
        self.dense = keras.layers.Dense(
            V,
            kernel_regularizer="l1",
            activity_regularizer=activity_regularizer,
        )
        self.embedding.build()
        self.dense.build((None, None, 4))
        self.built = True

    def call(self, inputs, training=None):
        return self.dense(self.embedding(inputs["target_token_ids"]))

    def symbolic_batch(self):
        ids = keras.KerasTensor((None, None), "int32")
        return {"source_token_ids": ids, "target_token_ids": ids}, ids


def dataset():
    """Batches of 5 and of 1: the second replica has fewer rows, or none."""
    random = np.random.default_rng(0)
    labels = random.integers(2, V, (6, 5)).astype("int32")
    labels[1, 3:] = labels[4, 1:] = 0
    inputs = {"source_token_ids": labels, "target_token_ids": labels}
    weights = (0.5 + random.random(labels.shape)).astype("float32")
    return tf.data.Dataset.from_tensor_slices((inputs, labels, weights)).batch(
        5
    )


def trained(strategy, accumulation_steps):
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = Words()
        model.compile(
            keras.optimizers.SGD(0.1),
            ra.MaskedCrossEntropy(),
            accumulation_steps=accumulation_steps,
        )
    history = model.fit(dataset(), epochs=2, shuffle=False, verbose=0).history
    logs = model.evaluate(dataset(), verbose=0, return_dict=True)
    return {
        "weights": [np.asarray(w).ravel().tolist() for w in model.weights],
        "loss": history["loss"],
        "evaluation": logs,
    }


def refused(strategy, accumulation_steps=1, **arguments):
    with strategy.scope():
        model = Words(activity_regularizer="l2")
        model.compile(
            "sgd",
            ra.MaskedCrossEntropy(),
            accumulation_steps=accumulation_steps,
        )
        try:
            model.fit(dataset(), shuffle=False, verbose=0, **arguments)
        except ValueError as error:
            return str(error)


def main(number):
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * number,
    )
    strategy = tf.distribute.get_strategy()
    if number > 1:
        devices = [f"CPU:{index}" for index in range(number)]
        strategy = tf.distribute.MirroredStrategy(devices)
    results = {f"{n} parts": trained(strategy, n) for n in (1, 2)}
    results["class_weight"] = refused(strategy, class_weight={3: 2.0})
    results["activity"] = refused(strategy, accumulation_steps=3 - number)
    print(json.dumps(results))


if __name__ == "__main__":
    main(int(sys.argv[1]))
