"""Labels and weights that do not fit the logits are refused."""

import keras
import numpy as np
import pytest

import relative_attention as ra

B, T, V = 2, 4, 7


@pytest.fixture
def logits(rng):
    return rng.normal(size=(B, T, V)).astype("float32")


@pytest.fixture
def labels(rng):
    return rng.integers(1, V, (B, T)).astype("int32")


def loss(labels, logits, sample_weight=None):
    return ra.MaskedCrossEntropy()(labels, logits, sample_weight)


def perplexity(labels, logits, sample_weight=None):
    metric = ra.Perplexity()
    metric.update_state(labels, logits, sample_weight)
    return metric.result()


def accuracy(labels, logits, sample_weight=None):
    metric = ra.TokenAccuracy()
    metric.update_state(labels, logits, sample_weight)
    return metric.result()


EACH = pytest.mark.parametrize("function", [loss, perplexity, accuracy])


@EACH
@pytest.mark.parametrize("shape", [(T, B), (B,), (B, T, 1), (1, T), (B, 1)])
def test_labels_of_another_shape_are_refused(function, logits, shape):
    with pytest.raises(ValueError) as error:
        function(np.ones(shape, "int32"), logits)
    assert str(error.value) == (
        "`y_true` must have shape (B, T) and `y_pred` (B, T, V). Received: "
        f"y_true.shape={shape}, y_pred.shape={(B, T, V)}."
    )


@EACH
@pytest.mark.parametrize("shape", [(T,), (1,), (T, B), (1, T), (B, T, 1)])
def test_weights_of_another_shape_are_refused(function, labels, logits, shape):
    with pytest.raises(ValueError) as error:
        function(labels, logits, np.ones(shape, "float32"))
    assert str(error.value) == (
        "`sample_weight` must have shape (B,) or (B, T), that of `y_true`. "
        f"Received: sample_weight.shape={shape}, y_true.shape={(B, T)}."
    )


@EACH
def test_weights_of_every_right_shape_are_taken(function, labels, logits):
    weights = np.array([0.5, 2.0], "float32")
    expected = function(labels, logits, weights)
    for same in (weights[:, None], np.repeat(weights[:, None], T, axis=1)):
        np.testing.assert_allclose(
            function(labels, logits, same), expected, rtol=1e-6
        )


@EACH
@pytest.mark.parametrize("wrong", [-100, -1, V, 10**6])
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


class Words(ra.TrainableModel):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(V)
        self.dense.build((None, None, 1))
        self.built = True

    def call(self, inputs, training=None):
        ids = inputs["target_token_ids"]
        return self.dense(keras.ops.cast(ids, "float32")[..., None])


def fit(labels, **options):
    inputs = {"source_token_ids": np.ones((B, T)), "target_token_ids": labels}
    model = Words()
    jit_compile = options.pop("jit_compile", "auto")
    model.compile(
        "sgd", ra.MaskedCrossEntropy(**options), jit_compile=jit_compile
    )
    return model.fit(inputs, labels, verbose=0).history["loss"][0], model


@pytest.mark.parametrize("wrong", [-100, V])
def test_graphs_check_ids_if_asked_to(labels, wrong):
    right, _ = fit(labels, check_labels=True)
    assert np.isfinite(right)
    labels[0, 1] = wrong
    if keras.backend.backend() == "jax":
        assert np.isnan(fit(labels, check_labels=True)[0])
        return
    errors = ValueError
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        errors = tf.errors.InvalidArgumentError
    with pytest.raises(errors, match=rf"ids in \[0, {V}\)"):
        fit(labels, check_labels=True)


@pytest.mark.large
@pytest.mark.only_on("tensorflow", reason="XLA under TensorFlow")
def test_compiled_graphs_leave_out_an_update_of_wrong_ids(labels):
    labels[0, 1] = V
    _, model = fit(labels, check_labels=True, jit_compile=True)
    assert float(model.skipped_metric.result()) == 1


def test_checked_loss_and_gradient_are_the_same(labels, logits, gradients):
    labels[1, 2:] = 0
    for function in (loss, ra.MaskedCrossEntropy(check_labels=True)):
        value = float(function(labels, logits))
        (gradient,) = gradients(lambda x, f=function: f(labels, x), [logits])
        np.testing.assert_allclose(value, float(loss(labels, logits)))
        (expected,) = gradients(lambda x: loss(labels, x), [logits])
        np.testing.assert_array_equal(gradient, expected)


@pytest.mark.only_on("tensorflow", reason="shapes known when a graph runs")
@EACH
def test_graphs_of_unknown_shapes_check_them(function, labels, logits):
    import tensorflow as tf

    if function is not loss:
        metric = ra.Perplexity()
        if function is accuracy:
            metric = ra.TokenAccuracy()
        function = metric.update_state
    graph = tf.function(
        lambda labels, logits: function(labels, logits),
        input_signature=[
            tf.TensorSpec((None, None), tf.int32),
            tf.TensorSpec((None, None, V), tf.float32),
        ],
    )
    graph(labels, logits)
    with pytest.raises(tf.errors.InvalidArgumentError, match="`y_true` must"):
        graph(labels.T, logits)


def test_config_says_whether_labels_are_checked():
    checked = ra.MaskedCrossEntropy(0.2, check_labels=True)
    clone = keras.losses.deserialize(keras.losses.serialize(checked))
    assert clone.check_labels and clone.label_smoothing == 0.2
    old = {"label_smoothing": 0.3, "name": "masked_cross_entropy"}
    assert ra.MaskedCrossEntropy.from_config(old).check_labels is False
