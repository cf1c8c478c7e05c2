"""A step on one replica: its loss, its parts, what it shows and leaves out."""

import keras
import numpy as np
import pytest
from keras import ops

import relative_attention as ra
from tests.words_model import Words
from tests.words_model import batch_of
from tests.words_model import dataset

IN_PARTS = pytest.mark.only_on("tensorflow", reason="parts of a batch")


def words(**fields):
    keras.utils.set_random_seed(1)
    return Words(**fields)


def transformer(is_regularized):
    keras.utils.set_random_seed(1)
    return ra.Transformer.from_preset(
        "transformer_tiny_relative",
        vocabulary_size=13,
        num_encoder_layers=1,
        num_decoder_layers=1,
        hidden_dim=4,
        intermediate_dim=6,
        num_heads=2,
        max_relative_position=2,
        dropout=0.0,
    )


# === The loss ===


@pytest.mark.parametrize(
    "loss",
    [
        ra.MaskedCrossEntropy(),
        # Of Keras' losses, a part's is the mean over its own rows.
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    ],
    ids=["over_tokens", "of_keras"],
)
@pytest.mark.parametrize("loss_weight", [None, 0.5])
def test_losses_of_parts_add_up(loss, loss_weight):
    model = words(is_regularized=True)
    model.compile("sgd", loss, loss_weights=loss_weight)
    x, y, weights = batch_of(5)
    if not isinstance(loss, ra.MaskedCrossEntropy):
        # Where all parts weigh as much, the mean of their means is the mean.
        y, weights = np.full_like(y, 3), np.ones_like(weights)
        x, y, weights = x, y[:4], weights[:4]
        x = {name: ids[:4] for name, ids in x.items()}
    y_pred = ops.convert_to_numpy(model(x))
    whole = model.compute_loss(x, y, y_pred, weights)
    num_tokens = (weights * (y != 0)).sum()
    parts = [
        model.compute_loss(
            {name: ids[rows] for name, ids in x.items()},
            y[rows],
            y_pred[rows],
            weights[rows],
            num_tokens=num_tokens,
        )
        for rows in (slice(0, 2), slice(2, None))
    ]
    np.testing.assert_allclose(np.array(sum(parts)), np.array(whole), rtol=1e-5)


def test_loss_that_cannot_be_told_a_number_is_weighed(monkeypatch):
    class Doubled(ra.MaskedCrossEntropy):
        def call(self, y_true, y_pred, sample_weight=None):
            return 2 * super().call(y_true, y_pred, sample_weight)

    model = words()
    x, y, _ = batch_of(4)
    y_pred = ops.convert_to_numpy(model(x))
    losses = []
    for loss in (ra.MaskedCrossEntropy(), Doubled()):
        model.compile("sgd", loss)
        losses.append(float(model.compute_loss(x, y, y_pred, num_tokens=100.0)))
    np.testing.assert_allclose(losses[1], 2 * losses[0], rtol=1e-5)


def test_losses_that_layers_add_are_refused_of_parts():
    model = words(activity_regularizer="l2")
    model.compile("sgd", ra.MaskedCrossEntropy())
    x, y, _ = batch_of(2)
    y_pred = model(x)
    with pytest.raises(ValueError, match="`activity_regularizer`.*1 such"):
        model.compute_loss(x, y, y_pred, num_tokens=7.0)


# === Parts of a batch ===


def trained(make_model, batches, **options):
    model = make_model(is_regularized=True)
    start = model.get_weights()
    model.compile(keras.optimizers.SGD(0.5), ra.MaskedCrossEntropy(), **options)
    history = model.fit(
        dataset(*batches),
        steps_per_epoch=len(batches),
        shuffle=False,
        verbose=0,
    ).history
    return start, model.get_weights(), history


@IN_PARTS
@pytest.mark.parametrize(
    "make_model, jit_compile",
    [
        (words, False),
        (words, True),
        pytest.param(transformer, True, marks=pytest.mark.large),
    ],
    ids=["words", "words-xla", "transformer-xla"],
)
def test_step_in_parts_is_that_of_the_whole_batch(make_model, jit_compile):
    # 7 rows: parts of 3, 3 and 1; 1 row: a part of 1, and none or empty ones.
    batches = [batch_of(7), batch_of(1, seed=1)]
    if jit_compile and make_model is words:
        # XLA compiles each shape anew.
        batches = batches[:1]
    start, whole, shown = trained(make_model, batches, run_eagerly=True)
    _, parts, shown_of_parts = trained(
        make_model, batches, jit_compile=jit_compile, accumulation_steps=3
    )
    assert max(np.abs(a - b).max() for a, b in zip(start, whole)) > 1e-2
    for weight, expected in zip(parts, whole):
        np.testing.assert_allclose(weight, expected, rtol=0, atol=1e-6)
    for name, values in shown.items():
        np.testing.assert_allclose(
            shown_of_parts[name], values, rtol=2e-6, err_msg=name
        )


# === What is shown, and what is left out ===


def fit(model, *data, loss=None, **arguments):
    model.compile(
        keras.optimizers.SGD(0.0),
        loss or ra.MaskedCrossEntropy(),
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        run_eagerly=True,
    )
    return model.fit(*data, shuffle=False, verbose=0, **arguments).history


def test_loss_shown_is_the_mean_over_tokens():
    # Batches of two sentences, with 3, then 10 tokens to predict.
    inputs, labels, _ = batch_of(4)
    labels[:] = 5
    labels[[0, 1], [2, 1]] = labels[0, 2:] = labels[1, 1:] = 0
    model = words()
    model.dense.kernel.assign(5 * np.array(model.dense.kernel))
    history = fit(
        model,
        inputs,
        labels,
        batch_size=2,
        epochs=2,
        validation_data=(inputs, labels),
        validation_batch_size=2,
    )
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


def test_model_says_how_its_tokens_are_counted():
    class Other(Words):
        def count_tokens(self, x, y):
            return 7.0

    inputs, labels, _ = batch_of(2)
    assert fit(Other(), inputs, labels)["tokens"] == [7]
    inputs = {"target_token_ids": inputs["target_token_ids"]}
    assert fit(Words(), inputs, labels)["tokens"] == [(labels != 0).sum()]


def test_loss_that_is_not_finite_is_shown_by_validation():
    inputs, labels, _ = batch_of(3)
    model = words()
    model.embedding.embeddings.assign(np.full((13, 4), np.nan))
    model.compile("sgd", ra.MaskedCrossEntropy(), run_eagerly=True)
    logs = model.evaluate(inputs, labels, verbose=0, return_dict=True)
    assert np.isnan(logs["loss"])


@pytest.mark.only_on("tensorflow", reason="others have Keras' own step")
@pytest.mark.parametrize("accumulation_steps", [1, 2])
def test_update_that_is_not_finite_is_left_out(accumulation_steps):
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
