"""Models of tokens: the loss, parts of a batch, what is shown and saved."""

import random
import sys
import warnings

import keras
import numpy as np
import pytest
from keras import ops

import relative_attention as ra
from relative_attention.training.update import clip_gradients
from relative_attention.training.update import gradient_norm
from tests.small_models import Words
from tests.small_models import batch_of
from tests.small_models import corpus_of
from tests.small_models import dataset
from tests.small_models import tiny_transformer

IN_PARTS = pytest.mark.only_on("tensorflow", reason="parts of a batch")


def words(**fields):
    random.seed(1)
    return Words(**fields)


def transformer(is_regularized):
    random.seed(1)
    return tiny_transformer()


# === Parts of a batch ===


class Doubled(ra.MaskedCrossEntropy):
    """Knows nothing of the number of tokens of the whole batch."""

    def call(self, y_true, y_pred, sample_weight=None):
        return 2 * super().call(y_true, y_pred, sample_weight)


def of_keras():
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def trained(make_model, batches, loss, **options):
    model = make_model(is_regularized=True)
    start = model.get_weights()
    model.compile(keras.optimizers.SGD(0.5), loss(), **options)
    history = model.fit(
        dataset(*batches),
        steps_per_epoch=len(batches),
        shuffle=False,
        verbose=0,
    ).history
    return start, model.get_weights(), history


# 7 rows: parts of 3, 3 and 1; 1 row: a part of 1, and none or empty ones.
ROWS = [batch_of(7), batch_of(1, seed=1)]


def with_equal_parts():
    """Of other losses the mean of the parts' means is the mean of the whole."""
    inputs, labels, weights = batch_of(6)
    return [(inputs, np.full_like(labels, 3), np.ones_like(weights))]


@IN_PARTS
@pytest.mark.parametrize(
    "make_model, batches, loss, options",
    [
        (words, ROWS, ra.MaskedCrossEntropy, {}),
        (words, ROWS, ra.MaskedCrossEntropy, {"loss_weights": 0.5}),
        (words, with_equal_parts(), of_keras, {"loss_weights": 0.5}),
        (words, with_equal_parts(), Doubled, {}),
        # XLA compiles every shape again.
        (words, ROWS[:1], ra.MaskedCrossEntropy, {"jit_compile": True}),
        pytest.param(
            *(transformer, ROWS, ra.MaskedCrossEntropy, {"jit_compile": True}),
            marks=pytest.mark.large,
        ),
    ],
    ids=["words", "weighted", "of_keras", "doubled", "xla", "transformer-xla"],
)
def test_step_in_parts_is_that_of_the_whole_batch(
    make_model, batches, loss, options
):
    whole_options = {**options, "jit_compile": False, "run_eagerly": True}
    start, whole, shown = trained(make_model, batches, loss, **whole_options)
    _, parts, shown_of_parts = trained(
        make_model,
        batches,
        loss,
        **{"jit_compile": False, **options},
        accumulation_steps=3,
    )
    assert max(np.abs(a - b).max() for a, b in zip(start, whole)) > 1e-2
    for weight, expected in zip(parts, whole):
        np.testing.assert_allclose(weight, expected, rtol=0, atol=1e-6)
    for name, values in shown.items():
        np.testing.assert_allclose(
            shown_of_parts[name], values, rtol=2e-6, err_msg=name
        )


@pytest.mark.parametrize("factor", [1.0, 1e-12])
def test_loss_of_counted_tokens_is_that_of_keras(factor):
    model = words(is_regularized=True)
    model.compile("sgd", ra.MaskedCrossEntropy(), loss_weights=0.5)
    x, y, weights = batch_of(5)
    weights = (factor * weights).astype("float32")
    y_pred = ops.convert_to_numpy(model(x))
    losses = [
        np.array(model.compute_loss(x, y, y_pred, weights, **counted))
        for counted in ({}, {"num_tokens": (weights * (y != 0)).sum()})
    ]
    np.testing.assert_allclose(*losses, rtol=1e-5)


@pytest.mark.parametrize(
    "dtype, sharing",
    [
        ("mixed_float16", "all"),
        pytest.param("mixed_float16", "none", marks=pytest.mark.large),
        pytest.param("mixed_bfloat16", "all", marks=pytest.mark.large),
        pytest.param("float64", "none", marks=pytest.mark.large),
        pytest.param("float32", "all", marks=pytest.mark.large),
    ],
)
def test_common_factor_of_weights_changes_no_update(dtype, sharing):
    """The weights of samples, whose sum the loss is divided by."""
    x, y, weights = batch_of(5)
    model = tiny_transformer(share_embeddings=sharing, dtype=dtype)
    optimizer = keras.optimizers.SGD(1.0)
    if dtype == "mixed_float16":
        # So large a scale that the gradients of few tokens do not vanish.
        optimizer = keras.optimizers.LossScaleOptimizer(
            optimizer, initial_scale=256.0
        )
    model.compile(optimizer, ra.MaskedCrossEntropy(), run_eagerly=True)
    start = model.get_weights()

    def update(factor):
        model.set_weights(start)
        model.reset_metrics()
        shown = model.train_on_batch(
            x, y, (factor * weights).astype("float32"), return_dict=True
        )
        return shown["loss"], model.get_weights()

    loss, plain = update(1.0)
    changes = [np.abs(new - old).max() for new, old in zip(plain, start)]
    assert max(changes) > 0.1
    unit = {"mixed_float16": 2**-11, "mixed_bfloat16": 2**-8}.get(dtype, 2**-20)
    for factor in (1e-7, 1e5):
        found, scaled = update(factor)
        np.testing.assert_allclose(found, loss, rtol=2**-20)
        for weight, expected in zip(scaled, plain):
            limit = 2 * unit * max(changes)
            np.testing.assert_allclose(weight, expected, rtol=0, atol=limit)


def regularized(place):
    """A model with a loss that a layer adds, or with one of its own."""
    regularizer = keras.regularizers.L2(0.5)
    if place == "model":
        config = tiny_transformer().config
        return ra.Transformer(config, activity_regularizer=regularizer)
    model = tiny_transformer()
    block = model.decoder_blocks[0]
    layer = {
        "block": block,
        "attention": block.self_attention,
        "dense": block.feed_forward.intermediate_dense,
    }[place]
    layer.activity_regularizer = regularizer
    return model


@pytest.mark.parametrize(
    "place",
    [
        # JAX leaves out that of a model, as of any model of Keras.
        pytest.param(
            "model", marks=pytest.mark.only_on("tensorflow", reason="a model's")
        ),
        "block",
        "attention",
        "dense",
    ],
)
def test_losses_that_layers_add_are_trained(place):
    model = regularized(place)
    x, y, _ = batch_of(4)
    plain = tiny_transformer()
    plain.set_weights(model.get_weights())
    losses = []
    for one in (plain, model):
        one.compile(keras.optimizers.SGD(0.0), ra.MaskedCrossEntropy())
        trained = one.train_on_batch(x, y, return_dict=True)["loss"]
        tested = one.evaluate(x, y, verbose=0, return_dict=True)["loss"]
        np.testing.assert_allclose(trained, tested, rtol=1e-5)
        losses.append(trained)
    assert losses[1] > 1.001 * losses[0]
    again = type(model).from_config(model.get_config())
    assert (again.activity_regularizer is None) == (place != "model")


@IN_PARTS
def test_losses_that_layers_add_are_refused_of_parts():
    model = words(activity_regularizer="l2")
    model.compile("sgd", ra.MaskedCrossEntropy(), accumulation_steps=2)
    with pytest.raises(ValueError, match="`activity_regularizer`.*1 such"):
        model.fit(*batch_of(2)[:2], verbose=0)


# === What is shown, and what is left out ===


def test_loss_shown_is_the_mean_over_tokens():
    # Batches of two sentences, with 3, then 10 tokens to predict.
    inputs, labels, _ = batch_of(4)
    labels[:] = 5
    labels[[0, 1], [2, 1]] = labels[0, 2:] = labels[1, 1:] = 0
    model = words()
    model.dense.kernel.assign(5 * np.array(model.dense.kernel))
    model.compile(
        keras.optimizers.SGD(0.0),
        ra.MaskedCrossEntropy(),
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        run_eagerly=True,
    )
    history = model.fit(
        inputs,
        labels,
        batch_size=2,
        epochs=2,
        validation_data=(inputs, labels),
        validation_batch_size=2,
        shuffle=False,
        verbose=0,
    ).history
    logits = np.array(model(inputs))
    first, second = (
        float(ra.MaskedCrossEntropy()(labels[part], logits[part]))
        for part in (slice(2), slice(2, 4))
    )
    expected = (3 * first + 10 * second) / 13
    # Far from the mean over batches.
    assert abs(expected - (first + second) / 2) > 1e-3
    np.testing.assert_allclose(history["loss"], expected, rtol=1e-5)
    np.testing.assert_allclose(history["val_loss"], expected, rtol=1e-5)
    num_tokens = (inputs["source_token_ids"] != 0).sum() + 13
    assert history["tokens"] == history["val_tokens"] == [num_tokens] * 2
    accuracy = (logits.argmax(-1) == labels).mean()
    np.testing.assert_allclose(history["accuracy"], accuracy, rtol=1e-6)


@pytest.mark.only_on("tensorflow", reason="others have Keras' own step")
@pytest.mark.parametrize("accumulation_steps", [1, 2])
def test_nonfinite_update_is_skipped(accumulation_steps):
    inputs, labels, weights = batch_of(4)
    model = words()
    model.compile(
        keras.optimizers.SGD(0.1),
        ra.MaskedCrossEntropy(),
        run_eagerly=True,
        accumulation_steps=accumulation_steps,
    )
    wrong = weights.copy()
    wrong[0, 0] = np.inf
    before = model.get_weights()
    logs = model.train_on_batch(inputs, labels, wrong, return_dict=True)
    assert logs["skipped"] == 1 and logs["gradient_norm"] == 0
    assert int(model.optimizer.iterations) == 0
    for weight, old in zip(model.get_weights(), before):
        np.testing.assert_array_equal(weight, old)
    # As newer Keras does itself.
    model.reset_metrics()
    logs = model.train_on_batch(inputs, labels, weights, return_dict=True)
    assert logs["skipped"] == 0 and logs["gradient_norm"] > 0
    assert np.isfinite(logs["loss"]) and logs["loss"] > 0
    assert int(model.optimizer.iterations) == 1
    # Validation shows such a loss.
    model.embedding.embeddings.assign(np.full((13, 4), np.nan))
    logs = model.evaluate(inputs, labels, verbose=0, return_dict=True)
    assert np.isnan(logs["loss"])


# === Gradients, solved by hand ===

# Lengths 5 and 12, together 13.
GRADIENTS = [np.array([3.0, 4.0], "float32"), np.array([12.0], "float32")]


class InfiniteSlope(Words):
    """Its loss is finite, and its gradients never are."""

    def call(self, inputs, training=None):
        logits = super().call(inputs, training=training)
        return logits + ops.sqrt(0 * logits)


@pytest.mark.only_on("tensorflow", "jax", reason="of Keras' own step")
def test_gradients_that_no_loss_scale_makes_finite_are_skipped():
    inputs, labels, _ = batch_of(4)
    random.seed(1)
    model = InfiniteSlope()
    model.compile(
        keras.optimizers.LossScaleOptimizer(
            keras.optimizers.SGD(0.1), initial_scale=4
        ),
        ra.MaskedCrossEntropy(),
    )
    before = model.get_weights()
    skipped = []
    for _ in range(4):
        model.reset_metrics()
        logs = model.train_on_batch(inputs, labels, return_dict=True)
        skipped.append(float(logs["skipped"]))
    # The scale goes from 4 to 1 first.
    assert skipped == [0, 0, 1, 1]
    assert float(model.optimizer.dynamic_scale) == 1
    for weight, old in zip(model.get_weights(), before):
        np.testing.assert_array_equal(weight, old)


def with_loss_scale(optimizer):
    optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=8)
    optimizer.build([keras.Variable([0.0])])
    return optimizer


@pytest.mark.only_on("tensorflow", reason="it is TensorFlow's step")
@pytest.mark.parametrize(
    "limits, expected",
    [
        ({}, [[3, 4], [12]]),
        ({"clipnorm": 10.0}, [[3, 4], [10]]),
        ({"global_clipnorm": 6.5}, [[1.5, 2], [6]]),
        ({"clipvalue": 3.5}, [[3, 3.5], [3.5]]),
    ],
    ids=["none", "clipnorm", "global_clipnorm", "clipvalue"],
)
def test_gradients_are_clipped_as_by_the_optimizer(limits, expected):
    for scale in (1, 8):
        optimizer = keras.optimizers.SGD(**limits)
        if scale == 8:
            optimizer = with_loss_scale(optimizer)
        scaled = [scale * gradient for gradient in GRADIENTS]
        assert float(gradient_norm(optimizer, [*scaled, None])) == 13
        clipped = clip_gradients(optimizer, scaled)
        for gradient, values in zip(clipped, expected):
            np.testing.assert_allclose(gradient, scale * np.array(values))


@pytest.fixture
def data():
    return batch_of(4)[:2]


def compiled(**options):
    model = words()
    model.compile(keras.optimizers.SGD(0.1), ra.MaskedCrossEntropy(), **options)
    return model


def test_validation_shows_nothing_of_updates(data):
    history = compiled().fit(*data, validation_data=data, verbose=0).history
    shown = {"loss", "tokens", "val_loss", "val_tokens"}
    if keras.backend.backend() in ("tensorflow", "jax"):
        shown |= {"gradient_norm", "skipped"}
    assert history.keys() == shown


# === What a saved model is compiled with ===


def reloaded(model, tmp_path):
    model.save(tmp_path / "model.keras")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return keras.saving.load_model(tmp_path / "model.keras")


def test_saved_model_is_compiled_as_it_was(data, tmp_path):
    options = {
        "loss_weights": 0.5,
        "steps_per_execution": 2,
        "auto_scale_loss": False,
        # What it means is chosen again where the model is loaded.
        "jit_compile": "auto",
    }
    if keras.backend.backend() != "torch":
        options["accumulation_steps"] = 3
    model = compiled(**options)
    # And when it is saved and loaded again.
    loaded = reloaded(reloaded(model, tmp_path), tmp_path)
    config = loaded.get_compile_config()
    assert config == model.get_compile_config()
    assert config.items() >= options.items()
    assert loaded.jit_compile == model.jit_compile
    assert loaded.accumulation_steps == options.get("accumulation_steps", 1)


def test_model_that_was_not_compiled_is_saved_so(tmp_path):
    assert Words().get_compile_config() == {}
    assert not reloaded(Words(), tmp_path).compiled


@pytest.mark.only_on("torch", reason="the others take parts")
def test_model_of_another_backend_trains_whole_batches(data, tmp_path):
    model = compiled()
    config = {**model.get_compile_config(), "accumulation_steps": 3}
    with pytest.warns(UserWarning, match="accumulation_steps=3"):
        model.compile_from_config(config)
    assert model.accumulation_steps == 1


# === Batches that are a function of the step ===


@pytest.fixture
def batches():
    # The first two batches of an epoch may have one length, others not.
    lengths = np.repeat([3, 4, 7], 4)
    return ra.TokenBatches(corpus_of(lengths), 16, seed=3)


@pytest.mark.parametrize("steps", [None, 2])
def test_epochs_are_those_of_the_batches_and_resume(batches, steps):
    # Run as a graph every shape would be traced again, and compiled on JAX.
    model, by_hand = compiled(run_eagerly=True), compiled(run_eagerly=True)
    options = {"steps_per_epoch": steps, "shuffle": True, "verbose": 0}
    history = model.fit(batches, epochs=1, **options).history
    model.fit(batches, initial_epoch=1, epochs=3, **options)
    for step in range(3 * (steps or len(batches))):
        by_hand.train_on_batch(*batches.train_batch(step))
    for weight, other in zip(model.get_weights(), by_hand.get_weights()):
        np.testing.assert_allclose(weight, other, rtol=0, atol=1e-6)
    if steps is None:
        corpus = batches.corpus
        num_tokens = corpus.source_lengths.sum() + corpus.target_lengths.sum()
        assert history["tokens"] == [num_tokens]


def test_validation_sees_every_pair_once(batches):
    others = ra.TokenBatches(corpus_of([5, 2, 2, 6], seed=1), 8)
    model = compiled(run_eagerly=True)
    history = model.fit(
        batches, validation_data=others, epochs=2, verbose=0
    ).history
    num_tokens = 2 * (5 + 2 + 2 + 6 + 4)
    assert history["val_tokens"] == [num_tokens] * 2
    logs = model.evaluate(others, verbose=0, return_dict=True)
    assert logs["tokens"] == num_tokens
    np.testing.assert_allclose(logs["loss"], history["val_loss"][-1], rtol=1e-6)
    assert model.evaluate(x=others, verbose=0)[0] == logs["loss"]


@pytest.mark.parametrize("method", ["fit", "train_on_batch"])
def test_class_weights_are_refused(batches, method):
    data = batches.train_batch(0)
    with pytest.raises(ValueError, match="`sample_weight`"):
        getattr(compiled(), method)(*data, class_weight={3: 2.0})
    # What Keras has before it, by position.
    between = {
        "fit": (None, 1, 0, None, 0.0, None, False),
        "train_on_batch": (None,),
    }
    with pytest.raises(ValueError, match="`sample_weight`"):
        getattr(compiled(), method)(*data, *between[method], {3: 2.0})


# === Memory ===

# 2,048 tokens of 32,768 pieces: their logits alone take 256 MiB, of a model as
# narrow as can be.
STEPS = """
import sys

import keras
import numpy as np

import relative_attention as ra
from tests.peak_memory import peak_memory

has_logits = sys.argv[1] == "logits"
model = ra.Transformer.from_preset(
    "transformer_tiny_relative",
    vocabulary_size=32768,
    num_encoder_layers=1,
    num_decoder_layers=1,
    hidden_dim=16,
    intermediate_dim=16,
    num_heads=2,
)
accuracy = keras.metrics.SparseCategoricalAccuracy()
model.compile(
    keras.optimizers.SGD(0.1),
    ra.MaskedCrossEntropy(0.1),
    metrics=[accuracy if has_logits else ra.TokenAccuracy()],
)
assert (model.scoring_loss is None) is has_logits
ids = np.random.default_rng(0).integers(2, 32768, (64, 32))
inputs = {"source_token_ids": ids, "target_token_ids": ids}
before = peak_memory()
for _ in range(2):
    model.train_on_batch(inputs, ids)
print(peak_memory() - before)
"""


@pytest.mark.large
@pytest.mark.skipif(
    sys.platform != "linux" or keras.backend.backend() != "tensorflow",
    reason="measures a process of TensorFlow as Linux counts it",
)
def test_step_without_logits_needs_far_less_memory(run_python):
    projected, logits = (
        int(run_python(STEPS, kind).splitlines()[-1])
        for kind in ("projected", "logits")
    )
    assert projected < 0.6 * logits


def test_subclass_trains_on_the_logits_that_it_computes():
    class Doubled(ra.Transformer):
        def logits(self, *args):
            return 2 * super().logits(*args)

    model = Doubled(tiny_transformer().config)
    loss = ra.MaskedCrossEntropy()
    model.compile("sgd", loss, metrics=[ra.Perplexity()])
    x, y, _ = batch_of(4)
    expected = ops.convert_to_numpy(loss(y, model(x)))
    shown = model.train_on_batch(x, y, return_dict=True)["loss"]
    np.testing.assert_allclose(shown, expected, rtol=1e-5)


@pytest.mark.only_on("torch", reason="it has a device without numbers")
def test_metrics_are_on_the_device_of_the_logits():
    with keras.device("meta"):
        accuracy = ra.TokenAccuracy()(ops.zeros((2, 3)), ops.zeros((2, 3, 5)))
    assert str(accuracy.device) == "meta"
