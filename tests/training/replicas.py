"""Trains small models on one replica and on two; prints JSON.

A process of its own, as devices are divided before the backend starts. Run by
`test_replicas.py`, with the names of cases.
"""

import contextlib
import json
import sys

import keras
import numpy as np

import relative_attention as ra
from relative_attention.layers.dropout import Dropout
from relative_attention.ops.backend import jax_replica
from relative_attention.training import averaged_weights
from relative_attention.training.optimizer import AveragedValidation
from tests.small_models import VOCABULARY_SIZE
from tests.small_models import Words
from tests.small_models import batch_of
from tests.small_models import corpus_of
from tests.small_models import dataset
from tests.small_models import tiny_transformer

IS_JAX = keras.backend.backend() == "jax"

# A label that makes the loss, and all gradients, too large.
POISON = 12


class Poisonous(ra.MaskedCrossEntropy):
    factor = np.inf

    def call(self, y_true, y_pred, sample_weight=None):
        loss = super().call(y_true, y_pred, sample_weight)
        is_poisoned = keras.ops.any(keras.ops.equal(y_true, POISON))
        return loss * keras.ops.where(is_poisoned, self.factor, 1.0)


class Overflowing(Poisonous):
    # Finite in float32, not in float16.
    factor = 1e6


def values(weights):
    return [np.asarray(weight).ravel().tolist() for weight in weights]


def sgd():
    return keras.optimizers.SGD(0.5)


def clipped_sgd():
    return keras.optimizers.SGD(0.5, global_clipnorm=0.1)


class Devices:
    """Some of JAX' devices, with the names of a `tf.distribute` strategy."""

    def __init__(self, number):
        self.num_replicas_in_sync = number
        devices = keras.distribution.list_devices()[:number]
        self.distribution = keras.distribution.DataParallel(devices=devices)

    def scope(self):
        # Also for `fit`, until the next case.
        keras.distribution.set_distribution(self.distribution)
        return contextlib.nullcontext()


class Batches:
    """Batches of any numbers of rows, as `fit` takes them on JAX."""

    def __init__(self, batches):
        self.batches = batches

    def __len__(self):
        return len(self.batches)

    def train_batch(self, step):
        return self.evaluation_batch(step % len(self))

    def evaluation_batch(self, number):
        return self.batches[number]


def data_of(*batches):
    return Batches(batches) if IS_JAX else dataset(*batches)


def trained(
    strategy,
    data,
    optimizer=sgd,
    make_model=Words,
    loss=ra.MaskedCrossEntropy,
    accumulation_steps=1,
    has_metrics=False,
    epochs=1,
    fit=None,
    **fields,
):
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = make_model(**fields)
        model.compile(
            optimizer(),
            loss(),
            metrics=[ra.Perplexity(), ra.TokenAccuracy()]
            if has_metrics
            else None,
            accumulation_steps=accumulation_steps,
            # A graph is made for replicas alone: it takes a while.
            run_eagerly=strategy.num_replicas_in_sync == 1 and not IS_JAX,
        )
    start = values(model.weights)
    shown = model.fit(data, epochs=epochs, verbose=0, **(fit or {})).history
    return model, {
        "start": start,
        "weights": values(model.weights),
        "iterations": int(np.asarray(model.optimizer.iterations)),
        "shown": {k: list(map(float, v)) for k, v in shown.items()},
    }


def on_token_batches(strategy):
    """Clipped updates, averages of the weights, validation with these."""
    # Batches of 4, 4 and 3 pairs.
    batches = ra.TokenBatches(corpus_of([4] * 11), 20)
    model, results = trained(
        strategy,
        batches,
        lambda: ra.AveragingAdam(
            0.01, ema_momentum=0.5, epsilon=1e-6, global_clipnorm=0.1
        ),
        epochs=2,
        fit={
            "validation_data": batches,
            "callbacks": [AveragedValidation()],
        },
        is_regularized=True,
    )
    with averaged_weights(model):
        averaged = values(model.weights)
    copies = [
        np.asarray(copy).ravel().tolist()
        for weight in model.weights
        for copy in copies_of(weight.value)
    ]
    return {**results, "averaged": averaged, "copies": copies}


def copies_of(value):
    if IS_JAX:
        return [shard.data for shard in value.addressable_shards]
    return getattr(value, "values", [value])


def on_fixed_shapes(strategy):
    """The rows of no shape can be divided by two."""
    batches = ra.FixedShapeBatches(corpus_of([4] * 7 + [6] * 5), 27)
    assert all(rows % 2 for rows, _ in batches.shapes)
    return trained(strategy, batches, fit={"validation_data": batches})[1]


def on_arrays(strategy):
    """Five rows, by four; and another loss, whose mean is over rows."""
    inputs, labels, weights = batch_of(5)
    arguments = {"batch_size": 4, "shuffle": False, "sample_weight": weights}
    validation = (inputs, labels)
    _, results = trained(
        strategy,
        inputs,
        is_regularized=True,
        fit={"y": labels, "validation_data": validation, **arguments},
    )
    _, of_keras = trained(
        strategy,
        {name: ids[:4] for name, ids in inputs.items()},
        loss=lambda: keras.losses.SparseCategoricalCrossentropy(True),
        is_regularized=True,
        fit={"y": labels[:4]},
    )
    del of_keras["shown"]["loss"]  # Of the tokens of rows with any loss.
    return {
        **results,
        "weights": [*results["weights"], *of_keras["weights"]],
        "start": [*results["start"], *of_keras["start"]],
    }


def in_parts(strategy):
    """Clipped; the second batch has one row, so one replica has none."""
    is_whole = strategy.num_replicas_in_sync == 1
    return trained(
        strategy,
        data_of(batch_of(5), batch_of(1, seed=1)),
        clipped_sgd,
        accumulation_steps=1 if is_whole else 2,
        is_regularized=True,
    )[1]


def pairs(*numbers):
    return data_of(*(batch_of(n, seed=n)[:2] for n in numbers))


def of_a_transformer(strategy):
    is_whole = strategy.num_replicas_in_sync == 1
    data = pairs(8, 7, 5, 1)
    return trained(
        strategy,
        data,
        make_model=tiny_transformer,
        accumulation_steps=1 if is_whole else 2,
        has_metrics=True,
        fit={"validation_data": data},
        share_embeddings="target",
        source_vocabulary_size=VOCABULARY_SIZE,
    )[1]


def of_a_task(strategy):
    """Of KerasHub, on strings: halves have unequal numbers of tokens."""
    import tensorflow as tf

    from tests.small_models import SOURCES
    from tests.small_models import TARGETS
    from tests.small_models import make_task

    data = tf.data.Dataset.from_tensor_slices((SOURCES, TARGETS)).batch(4)
    return trained(
        strategy,
        data,
        lambda: keras.optimizers.SGD(0.05, global_clipnorm=1.0),
        make_model=make_task,
    )[1]


def clipped_float16(strategy):
    data = pairs(8, 7, 5, 1)
    return trained(strategy, data, clipped_sgd, dtype="mixed_float16")[1]


def poisoned(strategy, loss=Poisonous, **fields):
    """Two epochs of two steps, of which the first's last row is poisoned."""
    inputs, labels, _ = batch_of(4)
    labels = np.where(labels == POISON, 2, labels)
    wrong = labels.copy()
    wrong[-1, 0] = POISON
    model, results = trained(
        strategy,
        data_of((inputs, wrong), (inputs, labels)),
        loss=loss,
        epochs=2,
        dropout=0.1,
        **fields,
    )
    seeds = [v for v in model.variables if "seed" in v.path.lower()]
    return {
        "is_finite": all(
            np.isfinite(np.asarray(w)).all() for w in model.weights
        ),
        "is_changed": results["start"] != results["weights"],
        "iterations": results["iterations"],
        "draws": [int(np.asarray(seed)[1]) for seed in seeds],
        "scale": float(model.optimizer.scale_loss(1.0)),
        "shown": results["shown"],
    }


def dropped(strategy):
    """What dropout makes of the same ones on every replica, two times."""
    keras.utils.set_random_seed(3)
    with strategy.scope():
        layer = Dropout(0.5)
    if IS_JAX:
        return [draws_on_jax(strategy, layer) for _ in range(2)]
    import tensorflow as tf

    @tf.function
    def draw():
        results = strategy.run(lambda: layer(tf.ones((64,)), training=True))
        return strategy.experimental_local_results(results)

    return [[result.numpy().tolist() for result in draw()] for _ in range(2)]


def draws_on_jax(strategy, layer):
    import jax

    def draw(ones):
        with jax_replica("batch", 2):
            return layer(ones[0], training=True)[None]

    mesh = strategy.distribution.device_mesh.backend_mesh
    return jax.shard_map(
        draw,
        mesh=mesh,
        in_specs=jax.P("batch"),
        out_specs=jax.P("batch"),
        check_vma=False,
    )(np.ones((2, 64), "float32")).tolist()


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


def arrays_refused(strategy):
    """What is said to arrays whose batches two devices cannot share."""
    inputs, labels, _ = batch_of(5)

    def message(**options):
        try:
            trained(strategy, inputs, fit={"y": labels, **options})
        except ValueError as error:
            return str(error)

    return {
        "batch_size": message(batch_size=3),
        "validation_split": message(validation_split=0.5),
    }


HALF = {"dtype": "mixed_float16"}
ON_BOTH = {
    case.__name__: case
    for case in (
        on_token_batches,
        on_fixed_shapes,
        on_arrays,
        in_parts,
        of_a_transformer,
        of_a_task,
        clipped_float16,
    )
}
ON_TWO = {
    "poisoned": poisoned,
    "dropped": dropped,
    "refused": refused,
    "arrays_refused": arrays_refused,
    "poisoned_float16": lambda two: poisoned(two, **HALF),
    "overflown_float16": lambda two: poisoned(two, Overflowing, **HALF),
}


def one_and_two_devices():
    if IS_JAX:
        return Devices(1), Devices(2)
    import tensorflow as tf

    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 2,
    )
    return (
        tf.distribute.get_strategy(),
        tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]),
    )


def main(*names):
    one, two = one_and_two_devices()
    results = {
        name: [ON_BOTH[name](one), ON_BOTH[name](two)]
        if name in ON_BOTH
        else ON_TWO[name](two)
        for name in names
    }
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
