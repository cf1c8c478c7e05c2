"""A step on two replicas is that of one, however the batch is taken apart.

`test_replicas.py` runs this file in a process of its own, as devices are
divided before the backend starts.
"""

import contextlib
from typing import NamedTuple

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.layers.dropout import Dropout
from relative_attention.ops.backend import jax_replica
from relative_attention.training import averaged_weights
from relative_attention.training.optimizer import AveragedValidation
from tests.small_models import SOURCES
from tests.small_models import TARGETS
from tests.small_models import VOCABULARY_SIZE
from tests.small_models import Words
from tests.small_models import batch_of
from tests.small_models import corpus_of
from tests.small_models import dataset
from tests.small_models import make_task
from tests.small_models import tiny_transformer

# The number of batches is unknown on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:Your input ran out of data")

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


def sgd():
    return keras.optimizers.SGD(0.5)


def clipped_sgd():
    return keras.optimizers.SGD(0.5, global_clipnorm=0.1)


# === One and two devices ===


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


ONE, TWO = one_and_two_devices()


# === The same training ===


class Trained(NamedTuple):
    model: keras.Model
    start: list
    weights: list
    iterations: int
    shown: dict


def trained(
    strategy,
    data,
    optimizer=sgd,
    make_model=Words,
    loss=ra.MaskedCrossEntropy,
    parts=1,
    metrics=None,
    epochs=1,
    fit=None,
    **fields,
):
    """Trains a model; in parts of a batch on two replicas alone."""
    keras.utils.set_random_seed(1)
    is_one = strategy.num_replicas_in_sync == 1
    with strategy.scope():
        model = make_model(**fields)
        model.compile(
            optimizer(),
            loss(),
            metrics=metrics and [metric() for metric in metrics],
            accumulation_steps=1 if is_one else parts,
            # A graph is made for replicas alone: it takes a while.
            run_eagerly=is_one and not IS_JAX,
        )
    start = model.get_weights()
    options = {"epochs": epochs, "shuffle": False, "verbose": 0, **(fit or {})}
    shown = model.fit(data, **options).history
    iterations = int(np.asarray(model.optimizer.iterations))
    return Trained(model, start, model.get_weights(), iterations, shown)


def largest_change(arrays, others):
    return max(
        np.abs(np.subtract(*pair)).max()
        for pair in zip(arrays, others, strict=True)
    )


def assert_same_training(*arguments, bound=1e-6, **options):
    one, two = (trained(some, *arguments, **options) for some in (ONE, TWO))
    assert largest_change(one.weights, two.weights) < bound
    assert largest_change(one.start, one.weights) > 1e-2
    assert one.iterations == two.iterations
    assert one.shown.keys() == two.shown.keys()
    assert {"loss", "gradient_norm", "tokens"} <= two.shown.keys()
    # In float16 numbers depend on the order of sums.
    for name, numbers in one.shown.items() if bound == 1e-6 else ():
        np.testing.assert_allclose(
            two.shown[name], numbers, rtol=2e-6, err_msg=name
        )
    return one, two


def test_token_batches():
    """Clipped updates, averages of the weights, validation with these."""
    # Batches of 4, 4 and 3 pairs.
    batches = ra.TokenBatches(corpus_of([4] * 11), 20)
    one, two = assert_same_training(
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
    assert not {"val_skipped", "val_gradient_norm"} & two.shown.keys()
    averaged = []
    for model in (one.model, two.model):
        with averaged_weights(model):
            averaged.append(model.get_weights())
    assert largest_change(*averaged) < 1e-6
    assert largest_change(averaged[0], one.weights) > 1e-3
    # Every replica has the weights back afterwards.
    for weight, expected in zip(two.model.weights, two.weights):
        copies = copies_of(weight.value)
        assert len(copies) == 2
        for copy in copies:
            np.testing.assert_array_equal(np.asarray(copy), expected)


def copies_of(value):
    if IS_JAX:
        return [shard.data for shard in value.addressable_shards]
    return value.values


def test_fixed_shapes():
    """The rows of no shape can be divided by two."""
    batches = ra.FixedShapeBatches(corpus_of([4] * 7 + [6] * 5), 27)
    assert all(rows % 2 for rows, _ in batches.shapes)
    assert_same_training(batches, fit={"validation_data": batches})


def test_arrays():
    """Five rows, by four."""
    inputs, labels, weights = batch_of(5)
    arguments = {"batch_size": 4, "sample_weight": weights}
    validation = (inputs, labels)
    assert_same_training(
        inputs,
        is_regularized=True,
        fit={"y": labels, "validation_data": validation, **arguments},
    )


def test_loss_over_rows():
    inputs, labels, _ = batch_of(4)
    one, two = (
        trained(
            strategy,
            inputs,
            loss=lambda: keras.losses.SparseCategoricalCrossentropy(True),
            is_regularized=True,
            fit={"y": labels},
        )
        for strategy in (ONE, TWO)
    )
    # The loss that is shown is of the tokens of rows with any loss.
    assert largest_change(one.weights, two.weights) < 1e-6
    assert largest_change(one.start, one.weights) > 1e-2


def test_parts():
    """Clipped; the second batch has one row, so one replica has none."""
    data = data_of(batch_of(5), batch_of(1, seed=1))
    assert_same_training(data, clipped_sgd, parts=2, is_regularized=True)


def pairs():
    return data_of(*(batch_of(n, seed=n)[:2] for n in (8, 7, 5, 1)))


def test_transformer():
    data = pairs()
    assert_same_training(
        data,
        make_model=tiny_transformer,
        parts=2,
        metrics=[ra.Perplexity, ra.TokenAccuracy],
        fit={"validation_data": data},
        share_embeddings="target",
        source_vocabulary_size=VOCABULARY_SIZE,
    )


def test_task():
    """Of KerasHub, on strings: halves have unequal numbers of tokens."""
    import tensorflow as tf

    data = tf.data.Dataset.from_tensor_slices((SOURCES, TARGETS)).batch(4)
    assert_same_training(
        data,
        lambda: keras.optimizers.SGD(0.05, global_clipnorm=1.0),
        make_model=make_task,
    )


def test_clipped_float16():
    assert_same_training(
        pairs(), clipped_sgd, bound=2e-3, dtype="mixed_float16"
    )


# === Updates that are skipped ===


def poisoned(loss=Poisonous, **fields):
    """Two epochs of two steps, of which the first's last row is poisoned."""
    inputs, labels, _ = batch_of(4)
    labels = np.where(labels == POISON, 2, labels)
    wrong = labels.copy()
    wrong[-1, 0] = POISON
    results = trained(
        TWO,
        data_of((inputs, wrong), (inputs, labels)),
        loss=loss,
        epochs=2,
        dropout=0.1,
        **fields,
    )
    for weight in results.weights:
        assert np.isfinite(weight).all()
    assert largest_change(results.start, results.weights) > 0
    assert results.iterations == 2
    return results


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
def test_nonfinite_update_is_skipped_on_all(dtype):
    results = poisoned(dtype=dtype)
    assert results.shown["skipped"] == [1, 1]
    assert np.isfinite(results.shown["loss"]).all()
    # Two epochs of two steps, the number of which nobody knew: nothing is
    # drawn when the data have ended.
    seeds = [v for v in results.model.variables if "seed" in v.path.lower()]
    assert [int(np.asarray(seed)[1]) for seed in seeds] == [4]


def test_scale_is_lowered_when_one_overflows():
    results = poisoned(Overflowing, dtype="mixed_float16")
    # Once an epoch.
    assert float(results.model.optimizer.scale_loss(1.0)) == 2**13
    assert results.shown["skipped"] == [0, 0]


# === Dropout ===


def test_replicas_drop_different_elements():
    keras.utils.set_random_seed(3)
    with TWO.scope():
        layer = Dropout(0.5)
    draw = draws_on_jax if IS_JAX else draws_on_tensorflow
    (first, second), (first_later, _) = (draw(layer) for _ in range(2))
    assert (first != second).any()
    assert (first != first_later).any()


def draws_on_tensorflow(layer):
    import tensorflow as tf

    @tf.function
    def draw():
        results = TWO.run(lambda: layer(tf.ones((64,)), training=True))
        return TWO.experimental_local_results(results)

    return [result.numpy() for result in draw()]


def draws_on_jax(layer):
    import jax

    def draw(ones):
        with jax_replica("batch", 2):
            return layer(ones[0], training=True)[None]

    mesh = TWO.distribution.device_mesh.backend_mesh
    return np.asarray(
        jax.shard_map(
            draw,
            mesh=mesh,
            in_specs=jax.P("batch"),
            out_specs=jax.P("batch"),
            check_vma=False,
        )(np.ones((2, 64), "float32"))
    )


# === What cannot be exact, or would fail ===


@pytest.mark.parametrize(
    "argument, options, fields",
    [
        ("jit_compile", {"jit_compile": True}, {}),
        ("steps_per_execution", {"steps_per_execution": 4}, {}),
        (
            "gradient_accumulation_steps",
            {"optimizer": ra.AveragingAdam(gradient_accumulation_steps=2)},
            {},
        ),
        (
            "activity_regularizer",
            {"loss": ra.MaskedCrossEntropy()},
            {"activity_regularizer": "l2"},
        ),
    ],
)
def test_option_is_refused(argument, options, fields):
    with TWO.scope(), pytest.raises(ValueError, match=f"`{argument}`"):
        model = Words(**fields)
        model.compile(**{"optimizer": "sgd", "loss": "mse", **options})
        model.fit(dataset(batch_of(4)), shuffle=False, verbose=0)


@pytest.mark.parametrize(
    "argument, value", [("batch_size", 3), ("validation_split", 0.5)]
)
def test_arrays_that_cannot_be_shared_are_refused(argument, value):
    inputs, labels, _ = batch_of(5)
    with pytest.raises(ValueError, match=f"`{argument}`"):
        trained(TWO, inputs, fit={"y": labels, argument: value})
