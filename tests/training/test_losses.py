"""The loss, and labels that it refuses."""

import keras
import numpy as np
import pytest
from keras import ops

import relative_attention as ra
from relative_attention.training import MaskedCrossEntropy
from tests.ops.test_cross_entropy import token_losses
from tests.small_models import VOCABULARY_SIZE
from tests.small_models import Words
from tests.small_models import batch_of

B, T, V = 3, 5, 11
SMOOTHINGS = pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.35])


@pytest.fixture
def logits(rng):
    return (3 * rng.normal(size=(B, T, V))).astype("float32")


@pytest.fixture
def labels(rng):
    labels = rng.integers(1, V, size=(B, T)).astype("int32")
    labels[0, 3:] = 0
    labels[1, 1] = 0
    return labels


def reference(labels, logits, smoothing, weights=None):
    weights = (labels != 0) * (1.0 if weights is None else weights)
    losses = token_losses(logits, labels, smoothing)
    return (losses * weights).sum() / weights.sum()


@SMOOTHINGS
def test_loss_is_the_formula(labels, logits, smoothing):
    loss = MaskedCrossEntropy(smoothing)(labels, logits)
    assert loss.shape == ()
    assert keras.backend.standardize_dtype(loss.dtype) == "float32"
    np.testing.assert_allclose(
        loss, reference(labels, logits, smoothing), rtol=1e-5
    )


@SMOOTHINGS
def test_gradient_is_that_of_the_smoothed_distribution(
    labels, logits, gradients, smoothing
):
    # 1.7 stands for what is computed from the loss, a loss scale say.
    (result,) = gradients(
        lambda logits: 1.7 * MaskedCrossEntropy(smoothing)(labels, logits),
        [logits],
    )
    exponentials = np.exp(logits.astype("float64"))
    targets = np.full((B, T, V), smoothing / (V - 1))
    for b, t in np.ndindex(B, T):
        targets[b, t, labels[b, t]] = 1 - smoothing
    real = (labels != 0)[..., None]
    expected = exponentials / exponentials.sum(-1, keepdims=True) - targets
    np.testing.assert_allclose(
        result, 1.7 * expected * real / real.sum(), rtol=1e-5, atol=1e-7
    )


@pytest.mark.parametrize("num_rows", [1, 7, 64])
def test_loss_is_the_formula_for_any_number_of_rows(rng, num_rows):
    # A large vocabulary is gone through in blocks of rows, some of them empty
    # when there are few.
    logits = rng.normal(size=(1, num_rows, 1003)).astype("float32")
    labels = rng.integers(1, 1003, size=(1, num_rows))
    np.testing.assert_allclose(
        MaskedCrossEntropy()(labels, logits),
        reference(labels, logits, 0.1),
        rtol=1e-5,
    )


def test_padding_has_no_loss_and_no_gradient(rng, labels, logits, gradients):
    loss = MaskedCrossEntropy()
    changed = np.where(
        (labels == 0)[..., None], 50 * rng.normal(size=(B, T, V)), logits
    ).astype("float32")
    np.testing.assert_array_equal(loss(labels, changed), loss(labels, logits))
    (gradient,) = gradients(lambda logits: loss(labels, logits), [changed])
    assert not gradient[labels == 0].any()
    assert gradient[labels != 0].all()
    # Nor is anything divided by 0 where there is nothing else.
    assert float(loss(0 * labels, changed)) == 0
    (gradient,) = gradients(lambda logits: loss(0 * labels, logits), [changed])
    assert not gradient.any()


@pytest.mark.parametrize("shape", [(B,), (B, 1), (B, T)], ids=str)
def test_sample_weights_weigh_and_divide(rng, labels, logits, gradients, shape):
    weights = (0.5 + rng.random(shape)).astype("float32")
    broadcast = weights if len(shape) == 2 else weights[:, None]
    loss = MaskedCrossEntropy()
    np.testing.assert_allclose(
        loss(labels, logits, sample_weight=weights),
        reference(labels, logits, 0.1, broadcast),
        rtol=1e-5,
    )
    weights[0] = 0
    np.testing.assert_allclose(
        loss(labels, logits, sample_weight=weights),
        loss(labels[1:], logits[1:], sample_weight=weights[1:]),
        rtol=1e-5,
    )
    (gradient,) = gradients(
        lambda logits: loss(labels, logits, sample_weight=weights), [logits]
    )
    assert not gradient[0].any()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_logits_are_computed_in_float32(
    labels, logits, gradients, dtype
):
    half = ops.cast(logits, dtype)
    # The same numbers in float32: only they are rounded, not the loss.
    rounded = np.array(ops.cast(half, "float32"))
    expected = reference(labels, rounded, 0.1)
    result = loss(labels, half)
    np.testing.assert_allclose(result, expected, rtol=1e-5)
    np.testing.assert_allclose(
        perplexity(labels, half), perplexity(labels, rounded), rtol=1e-5
    )
    (gradient,) = gradients(lambda logits: loss(labels, logits), [half])
    (expected,) = gradients(lambda logits: loss(labels, logits), [rounded])
    assert gradient.dtype == np.array(half).dtype
    np.testing.assert_allclose(
        gradient.astype("float32"), expected, rtol=1e-2, atol=1e-6
    )


def test_large_logits_stay_finite(labels, gradients):
    logits = np.zeros((B, T, V), "float32")
    logits[..., 3] = 1e4
    loss = MaskedCrossEntropy()
    labels = np.where(labels == 3, 4, labels)
    value = float(loss(labels, logits))
    # The label is another: all but its own low share lies 1e4 below.
    low = 0.1 / (V - 1)
    expected = (1 - low) * 1e4 + 0.9 * np.log(0.9) + 0.1 * np.log(low)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    (gradient,) = gradients(lambda logits: loss(labels, logits), [logits])
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("smoothing", [-0.1, "0.1"])
def test_smoothing_out_of_range_is_refused(smoothing):
    with pytest.raises(ValueError) as error:
        MaskedCrossEntropy(smoothing)
    assert str(error.value) == (
        "`label_smoothing` must be in [0, 1). Received: "
        f"label_smoothing={smoothing!r}."
    )


def test_config_survives_serialization():
    loss = MaskedCrossEntropy(0.3, name="smooth", check_labels=True)
    clone = keras.losses.deserialize(keras.losses.serialize(loss))
    assert isinstance(clone, MaskedCrossEntropy)
    assert clone.get_config() == {
        "label_smoothing": 0.3,
        "name": "smooth",
        "check_labels": True,
    }
    old = {"label_smoothing": 0.3, "name": "masked_cross_entropy"}
    assert MaskedCrossEntropy.from_config(old).check_labels is False


# === Labels and weights that do not fit ===


def loss(labels, logits, sample_weight=None):
    return MaskedCrossEntropy()(labels, logits, sample_weight)


def perplexity(labels, logits, sample_weight=None, metric=ra.Perplexity):
    metric = metric()
    metric.update_state(labels, logits, sample_weight)
    return metric.result()


def accuracy(labels, logits, sample_weight=None):
    return perplexity(labels, logits, sample_weight, ra.TokenAccuracy)


EACH = pytest.mark.parametrize("function", [loss, perplexity, accuracy])


@EACH
def test_labels_and_weights_of_another_shape_are_refused(
    function, labels, logits
):
    for shape in ((T, B), (B,), (B, T, 1), (1, T), (B, 1)):
        with pytest.raises(ValueError) as error:
            function(np.ones(shape, "int32"), logits)
        assert str(error.value) == (
            "`y_true` must have shape (B, T) and `y_pred` (B, T, V). Received: "
            f"y_true.shape={shape}, y_pred.shape={(B, T, V)}."
        )
    for shape in ((T,), (1,), (T, B), (1, T), (B, T, 1)):
        with pytest.raises(ValueError) as error:
            function(labels, logits, np.ones(shape, "float32"))
        assert str(error.value) == (
            "`sample_weight` must have shape (B,) or (B, T), that of `y_true`. "
            f"Received: sample_weight.shape={shape}, y_true.shape={(B, T)}."
        )


@EACH
@pytest.mark.parametrize("wrong", [-100, V])
@pytest.mark.parametrize("is_tensor", [False, True])
def test_ids_out_of_range_are_refused(
    function, labels, logits, wrong, is_tensor
):
    labels[1, 2] = wrong
    given = keras.ops.convert_to_tensor(labels) if is_tensor else labels
    with pytest.raises(ValueError) as error:
        function(given, logits)
    assert str(error.value) == (
        f"`y_true` must hold ids in [0, {V}), the size of the last axis of "
        "`y_pred`, and 0 where there is no label. Received: ids from "
        f"{labels.min()} to {labels.max()}."
    )


# === In graphs ===


def fit(wrong=None, jit_compile="auto"):
    inputs, labels, _ = batch_of(3)
    if wrong is not None:
        labels[0, 0] = wrong
    model = Words()
    model.compile(
        "sgd",
        MaskedCrossEntropy(check_labels=True),
        jit_compile=jit_compile,
    )
    return model.fit(inputs, labels, verbose=0).history["loss"][0], model


@pytest.mark.parametrize("wrong", [-100, VOCABULARY_SIZE])
def test_graphs_check_ids_if_asked_to(wrong):
    assert np.isfinite(fit()[0])
    if keras.backend.backend() == "jax":
        assert float(fit(wrong)[1].skipped_metric.result()) == 1
        return
    errors = ValueError
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        errors = tf.errors.InvalidArgumentError
    with pytest.raises(errors, match=rf"ids in \[0, {VOCABULARY_SIZE}\)"):
        fit(wrong)


@pytest.mark.large
@pytest.mark.only_on("tensorflow", reason="XLA under TensorFlow")
def test_compiled_graphs_leave_out_an_update_of_wrong_ids():
    _, model = fit(VOCABULARY_SIZE, jit_compile=True)
    assert float(model.skipped_metric.result()) == 1


def test_checked_loss_and_gradient_are_the_same(labels, logits, gradients):
    labels[1, 2:] = 0
    checked = MaskedCrossEntropy(check_labels=True)
    assert float(checked(labels, logits)) == float(loss(labels, logits))
    (gradient,) = gradients(lambda x: checked(labels, x), [logits])
    (expected,) = gradients(lambda x: loss(labels, x), [logits])
    np.testing.assert_array_equal(gradient, expected)


@pytest.mark.only_on("tensorflow", reason="shapes known when a graph runs")
def test_graphs_take_any_shape_and_check_it(labels, logits):
    import tensorflow as tf

    graph = tf.function(
        loss,
        input_signature=[
            tf.TensorSpec((None, None), tf.int32),
            tf.TensorSpec((None, None, V), tf.float32),
        ],
    )
    for length in (T, 3):
        arrays = labels[:, :length], logits[:, :length]
        np.testing.assert_allclose(graph(*arrays), loss(*arrays), rtol=1e-5)
    with pytest.raises(tf.errors.InvalidArgumentError, match="`y_true` must"):
        graph(labels.T, logits)
