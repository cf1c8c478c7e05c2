"""Trains a small model on one replica and on two; prints JSON.

A process of its own, as devices are divided before TensorFlow starts. Run by
`test_two_replicas.py`.
"""

import json

import keras
import numpy as np
import tensorflow as tf

import relative_attention as ra
from relative_attention.layers.dropout import Dropout
from relative_attention.training import AveragedValidation
from relative_attention.training import averaged_weights
from tests.words_model import Words
from tests.words_model import batch_of
from tests.words_model import corpus_of
from tests.words_model import dataset

# A label that makes the loss, and all gradients, too large.
POISON = 12


class Poisonous(ra.MaskedCrossEntropy):
    def call(self, y_true, y_pred, sample_weight=None):
        loss = super().call(y_true, y_pred, sample_weight)
        is_poisoned = keras.ops.any(keras.ops.equal(y_true, POISON))
        return loss * keras.ops.where(is_poisoned, np.inf, 1.0)


def compiled(strategy, optimizer, loss=None, accumulation_steps=1, **fields):
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = Words(**fields)
        model.compile(
            optimizer(),
            loss or ra.MaskedCrossEntropy(),
            accumulation_steps=accumulation_steps,
            # A graph is made for replicas alone: it takes a while.
            run_eagerly=strategy.num_replicas_in_sync == 1,
        )
    return model


def values(weights):
    return [np.asarray(weight).ravel().tolist() for weight in weights]


def on_token_batches(strategy):
    """Clipped updates, averages of the weights, validation with these."""
    model = compiled(
        strategy,
        lambda: ra.AveragingAdam(
            0.01, ema_momentum=0.5, epsilon=1e-6, global_clipnorm=0.1
        ),
        is_regularized=True,
    )
    # Batches of 4, 4 and 3 pairs.
    batches = ra.TokenBatches(corpus_of([4] * 11), 20)
    history = model.fit(
        batches,
        validation_data=batches,
        epochs=2,
        verbose=0,
        callbacks=[AveragedValidation()],
    ).history
    raw = values(model.weights)
    with averaged_weights(model):
        averaged = values(model.weights)
    copies = [
        np.asarray(copy).ravel().tolist()
        for weight in model.weights
        for copy in getattr(weight.value, "values", [weight])
    ]
    return {
        "weights": raw,
        "averaged": averaged,
        "copies": copies,
        "shown": history,
    }


def in_parts(strategy, accumulation_steps):
    """The second batch has one row: none for the second replica."""
    model = compiled(
        strategy,
        lambda: keras.optimizers.SGD(0.5),
        accumulation_steps=accumulation_steps,
        is_regularized=True,
    )
    start = values(model.weights)
    history = model.fit(
        dataset(batch_of(5), batch_of(1, seed=1)), epochs=1, verbose=0
    ).history
    return {"start": start, "weights": values(model.weights), "shown": history}


def poisoned(strategy):
    """Two epochs of two steps, of which the first's last row is poisoned."""
    inputs, labels, _ = batch_of(4)
    labels = np.where(labels == POISON, 2, labels)
    wrong = labels.copy()
    wrong[-1, 0] = POISON
    model = compiled(
        strategy, lambda: keras.optimizers.SGD(0.5), Poisonous(), dropout=0.1
    )
    start = values(model.weights[:1])
    history = model.fit(
        dataset((inputs, wrong), (inputs, labels)), epochs=2, verbose=0
    ).history
    seeds = [v for v in model.variables if "seed" in v.path.lower()]
    return {
        "is_finite": all(
            np.isfinite(np.asarray(w)).all() for w in model.weights
        ),
        "is_changed": start != values(model.weights[:1]),
        "iterations": int(np.asarray(model.optimizer.iterations)),
        "draws": [int(np.asarray(seed)[1]) for seed in seeds],
        "shown": history,
    }


def dropped(strategy):
    """What dropout makes of the same ones on every replica, two times."""
    keras.utils.set_random_seed(3)
    with strategy.scope():
        layer = Dropout(0.5)

    @tf.function
    def draw():
        results = strategy.run(lambda: layer(tf.ones((64,)), training=True))
        return strategy.experimental_local_results(results)

    return [[result.numpy().tolist() for result in draw()] for _ in range(2)]


def refused(strategy):
    """What is said to what cannot be exact, or would fail."""

    def message(fields=None, **options):
        with strategy.scope():
            model = Words(**(fields or {}))
            try:
                model.compile(**{"optimizer": "sgd", "loss": "mse", **options})
                model.fit(dataset(batch_of(4)), verbose=0)
            except ValueError as error:
                return str(error)

    return {
        "jit_compile": message(jit_compile=True),
        "steps_per_execution": message(steps_per_execution=4),
        "gradient_accumulation_steps": message(
            optimizer=ra.AveragingAdam(gradient_accumulation_steps=2)
        ),
        "activity_regularizer": message(
            {"activity_regularizer": "l2"}, loss=ra.MaskedCrossEntropy()
        ),
    }


def main():
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 2,
    )
    one = tf.distribute.get_strategy()
    two = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    results = {
        "on_token_batches": [on_token_batches(one), on_token_batches(two)],
        "in_parts": [in_parts(one, 1), in_parts(two, 2)],
        "poisoned": poisoned(two),
        "dropped": dropped(two),
        "refused": refused(two),
    }
    print(json.dumps(results))


if __name__ == "__main__":
    main()
