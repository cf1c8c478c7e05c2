"""Trains small models on one replica and on more; prints JSON.

A process of its own, as devices are divided before TensorFlow starts; one for
each number of replicas, as it counts them once. Run by `test_replicas.py`.
"""

import functools
import json
import sys

import keras
import numpy as np
import tensorflow as tf

import relative_attention as ra
from relative_attention.layers.dropout import Dropout

# Rows of the batches: divisible, not divisible, fewer than replicas.
ROWS = (8, 7, 5, 1)
VOCABULARY_SIZE = 29
# A label that makes the loss, and all gradients, too large; see `Poisonous`.
POISON = 13


class Poisonous(ra.MaskedCrossEntropy):
    def __init__(self, factor):
        super().__init__(0.1)
        self.factor = factor

    def call(self, y_true, y_pred, sample_weight=None):
        loss = super().call(y_true, y_pred, sample_weight)
        is_poisoned = keras.ops.any(keras.ops.equal(y_true, POISON))
        return loss * keras.ops.where(is_poisoned, self.factor, 1.0)


def batches(rows=ROWS):
    random = np.random.default_rng(0)
    for number_rows in rows:
        labels = random.integers(2, POISON, (number_rows, 9))
        source = random.integers(2, POISON, (number_rows, 11))
        for row in range(number_rows):
            labels[row, random.integers(1, 10) :] = 0
            source[row, random.integers(1, 12) :] = 0
        yield batch_of(source, labels)


def batch_of(source, labels):
    target = np.pad(labels, ((0, 0), (1, 0)))[:, :-1]
    return (
        {
            "source_token_ids": source.astype("int32"),
            "target_token_ids": target.astype("int32"),
        },
        labels.astype("int32"),
    )


def dataset(rows=ROWS, change=lambda batch: batch):
    ids = tf.TensorSpec((None, None), tf.int32)
    # Of unknown length, as data sets that filter are.
    return tf.data.Dataset.from_generator(
        lambda: map(change, batches(rows)),
        output_signature=(
            {"source_token_ids": ids, "target_token_ids": ids},
            ids,
        ),
    )


def scope(num_replicas):
    return strategy(num_replicas).scope()


@functools.cache
def strategy(num_replicas):
    # One a process: a second one would take part in the sums of the first.
    if num_replicas == 1:
        return tf.distribute.get_strategy()
    devices = [f"CPU:{number}" for number in range(num_replicas)]
    return tf.distribute.MirroredStrategy(devices)


class Words(ra.TrainableModel):
    """What a token says of the next; in place of a Transformer, as quicker."""

    def __init__(self, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        dtype = self.dtype_policy
        self.embedding = keras.layers.Embedding(VOCABULARY_SIZE, 8, dtype=dtype)
        self.dropout = Dropout(dropout, dtype=dtype)
        self.dense = keras.layers.Dense(VOCABULARY_SIZE, dtype=dtype)
        self.embedding.build()
        self.dense.build((None, None, 8))
        self.built = True

    def call(self, inputs, training=None):
        hidden = self.embedding(inputs["target_token_ids"])
        return self.dense(self.dropout(hidden, training=training))

    def symbolic_batch(self):
        ids = keras.KerasTensor((None, None), "int32")
        return {"source_token_ids": ids, "target_token_ids": ids}, ids


def transformer(dtype=None, **fields):
    return ra.Transformer.from_preset(
        "transformer_tiny_relative",
        vocabulary_size=VOCABULARY_SIZE,
        dtype=dtype,
        num_encoder_layers=1,
        num_decoder_layers=1,
        hidden_dim=8,
        intermediate_dim=16,
        num_heads=2,
        max_relative_position=3,
        dropout=0.0,
        attention_dropout=0.0,
        intermediate_dropout=0.0,
        **fields,
    )


def compiled(
    num_replicas,
    make_model=Words,
    optimizer=None,
    loss=None,
    accumulation_steps=1,
    with_metrics=False,
    **fields,
):
    keras.utils.set_random_seed(1)
    with scope(num_replicas):
        model = make_model(**fields)
        model.compile(
            optimizer=(optimizer or (lambda: keras.optimizers.SGD(0.5)))(),
            loss=loss or ra.MaskedCrossEntropy(0.1),
            metrics=[ra.Perplexity(), ra.TokenAccuracy()]
            if with_metrics
            else None,
            accumulation_steps=accumulation_steps,
        )
    return model


def trained(num_replicas, data=None, epochs=1, **options):
    """Weights, history and evaluation after a few steps."""
    data = dataset() if data is None else data
    model = compiled(num_replicas, **options)
    start = [np.array(weight) for weight in model.weights]
    history = model.fit(data, epochs=epochs, verbose=0).history
    evaluation = {}
    if options.get("with_metrics"):
        evaluation = model.evaluate(data, verbose=0, return_dict=True)
    return {
        "start": start,
        "weights": [np.asarray(weight) for weight in model.weights],
        "history": history,
        "evaluation": evaluation,
        "iterations": int(np.asarray(model.optimizer.iterations)),
        "model": model,
    }


def difference(results, others):
    return max(
        float(np.abs(a - b).max())
        for a, b in zip(results["weights"], others["weights"])
    )


def adam():
    return keras.optimizers.Adam(0.01, epsilon=1e-6)


CASES = {
    "pre-norm": {
        "make_model": transformer,
        "normalize_first": True,
        "with_metrics": True,
    },
    "post-norm": {
        "make_model": transformer,
        "normalize_first": False,
        "share_embeddings": "target",
        "source_vocabulary_size": VOCABULARY_SIZE,
        "accumulation_steps": 2,
    },
    "Adam, no smoothing": {
        "optimizer": adam,
        "loss": ra.MaskedCrossEntropy(0.0),
    },
    "clipped float16": {
        "optimizer": lambda: keras.optimizers.SGD(0.5, global_clipnorm=0.1),
        "dtype": "mixed_float16",
    },
    "accumulation": {"accumulation_steps": 3},
    "clipped accumulation": {
        "accumulation_steps": 2,
        "optimizer": lambda: keras.optimizers.SGD(0.5, global_clipnorm=0.1),
    },
}


def compare(options, numbers):
    # However a batch is taken apart, the step is that of the whole of it.
    whole = {k: v for k, v in options.items() if k != "accumulation_steps"}
    one = trained(1, **whole)
    results = {"change": difference(one, {"weights": one["start"]})}
    for num_replicas in numbers:
        if num_replicas == 1 and options == whole:
            continue
        many = trained(num_replicas, **options)
        results[num_replicas] = {
            "weights": difference(one, many),
            # Of training and, where it is asked for, of evaluation.
            **{
                name: max(
                    float(np.abs(np.atleast_1d(many[kind][name]) - value)[-1])
                    for kind in ("history", "evaluation")
                    for value in [np.atleast_1d(one[kind].get(name, []))]
                    if len(value)
                )
                for name in one["history"]
            },
            "iterations": many["iterations"] - one["iterations"],
        }
    return results


def poisoned(num_replicas, dtype, factor=np.inf):
    """Two steps, of which the first is poisoned in its last row alone."""

    def poison(batch):
        inputs, labels = batch
        labels = labels.copy()
        if len(labels) == 8:
            labels[-1, 0] = POISON
        return inputs, labels

    results = trained(
        num_replicas,
        dataset((8, 6), poison),
        epochs=1,
        loss=Poisonous(factor),
        dtype=dtype,
    )
    optimizer = results["model"].optimizer
    return {
        "is_finite": all(np.isfinite(w).all() for w in results["weights"]),
        "change": difference(results, {"weights": results["start"]}),
        "iterations": results["iterations"],
        "skipped": results["history"]["skipped"][0],
        "loss": results["history"]["loss"][0],
        "scale": float(optimizer.scale_loss(1.0)),
    }


def main(num_replicas, *parts):
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * num_replicas,
    )
    numbers = (1, num_replicas)

    def on_each(function, *arguments):
        return {n: function(n, *arguments) for n in numbers}

    others = {
        "poisoned float16": lambda: on_each(poisoned, "mixed_float16"),
        # Finite in float32, not in float16.
        "overflown float16": lambda: on_each(poisoned, "mixed_float16", 1e6),
    }
    print(
        json.dumps(
            {
                part: compare(CASES[part], numbers)
                if part in CASES
                else others[part]()
                for part in parts
            }
        )
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
