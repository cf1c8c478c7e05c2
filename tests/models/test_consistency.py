"""Two views of a sentence: their loss, its gradient, and what is refused."""

import keras
import numpy as np
import pytest
from keras import ops

import relative_attention as ra
from relative_attention.models import Consistency

pytestmark = pytest.mark.only_on(
    "tensorflow", reason="steps elsewhere are Keras' own"
)

OURS = {"loss": ra.MaskedCrossEntropy(0.1)}
RATE = 0.5


def compiled(model, **arguments):
    arguments = {
        **OURS,
        "metrics": [ra.Perplexity(), ra.TokenAccuracy()],
        **arguments,
    }
    model.compile(keras.optimizers.SGD(RATE), run_eagerly=True, **arguments)
    return model


def update(model, batch):
    """Returns what is shown of an update, and the gradient it made."""
    before = [np.array(weight) for weight in model.trainable_weights]
    shown = model.train_on_batch(*batch, return_dict=True)
    after = [np.array(weight) for weight in model.trainable_weights]
    return shown, [(b - a) / RATE for b, a in zip(before, after)]


def assert_same_update(one, other, atol=2e-6):
    for name, value in one[0].items():
        np.testing.assert_allclose(
            other[0][name], value, rtol=2e-5, err_msg=name
        )
    for gradient, expected in zip(one[1], other[1], strict=True):
        np.testing.assert_allclose(gradient, expected, atol=atol)


def of_views(model, batch, kind, weight):
    """The papers' losses from logits of both views, and their gradients."""
    import tensorflow as tf

    inputs, labels = batch
    consistency = Consistency(kind, weight, 0.5, seed=3)
    views = consistency.two_views(
        {name: ops.convert_to_tensor(ids) for name, ids in inputs.items()},
        ops.convert_to_tensor(0),
    )
    real = (labels != 0).astype("float32")
    with tf.GradientTape() as tape:
        hidden = model.decoder_outputs(views, training=True)
        logits = hidden @ tf.transpose(model.output_embedding.embeddings.value)
        first, second = tf.split(logits, 2)
        losses = [
            ra.MaskedCrossEntropy(0.1)(labels, copy) for copy in (first, second)
        ]
        p, q = (tf.nn.log_softmax(copy) for copy in (first, second))

        def divergence(p, q):
            each = tf.reduce_sum(tf.exp(p) * (p - q), axis=-1)
            return tf.reduce_sum(real * each) / real.sum()

        if kind == "simcut":
            loss = losses[0] + weight * divergence(p, q)
        else:
            both = (divergence(p, q) + divergence(q, p)) / 2
            loss = (losses[0] + losses[1] + weight * both) / 2
    return float(loss), tape.gradient(loss, model.trainable_variables)


@pytest.mark.parametrize("fields", [{}, {"output_bias": True}])
def test_step_without_logits_is_the_step_with_them(build_model, batch, fields):
    inputs, labels = batch
    weights = np.array([0.5, 2.0], "float32")
    with_weights = (inputs, labels, weights)
    projected = compiled(build_model(**fields))
    assert projected.is_projected
    plain = compiled(build_model(**fields))
    plain.is_projected = False
    assert_same_update(
        update(projected, with_weights), update(plain, with_weights)
    )


def test_other_losses_and_metrics_get_logits(build_model, batch):
    class Halved(ra.MaskedCrossEntropy):
        def call(self, *arguments):
            return super().call(*arguments) / 2

    class Shifted(ra.Transformer):
        def call(self, inputs, training=None):
            return super().call(inputs, training) + 1.0

    class Bits(ra.Perplexity):
        def update_state(self, y_true, y_pred, sample_weight=None):
            assert y_pred.shape[-1] == model.config.vocabulary_size
            super().update_state(y_true, y_pred, sample_weight)

    class Watched(ra.Transformer):
        def compute_metrics(self, x, y, y_pred, sample_weight=None):
            assert y_pred.shape[-1] == model.config.vocabulary_size
            return super().compute_metrics(x, y, y_pred, sample_weight)

    model = compiled(build_model(), loss=Halved(0.1))
    assert not model.is_projected
    halved, _ = update(model, batch)
    whole, _ = update(compiled(build_model()), batch)
    np.testing.assert_allclose(halved["loss"], whole["loss"] / 2, rtol=1e-5)
    assert not compiled(
        build_model(), metrics=["sparse_categorical_accuracy"]
    ).is_projected
    assert not compiled(Shifted(build_model().config)).is_projected
    update(compiled(build_model(), metrics=[Bits()]), batch)
    update(compiled(Watched(build_model().config)), batch)


@pytest.mark.parametrize("kind", ["r_drop", "simcut"])
def test_update_is_that_of_the_papers_loss(build_model, batch, kind):
    model = build_model()
    # Without dropout, R-Drop's views are alike: its terms are then tested
    # with the plain loss, here and below.
    loss, gradients = of_views(model, batch, kind, weight=2.0)
    consistency = Consistency(kind, 2.0, cut_probability=0.5, seed=3)
    shown, updates = update(compiled(model, consistency=consistency), batch)
    np.testing.assert_allclose(shown["loss"], loss, rtol=1e-5)
    for ours, expected in zip(updates, gradients, strict=True):
        np.testing.assert_allclose(
            ours, ops.convert_to_numpy(expected), atol=5e-6
        )


def test_r_drop_without_dropout_is_the_plain_loss(build_model, batch):
    model = compiled(build_model(), consistency="r_drop")
    assert model.consistency.weight == 5.0
    assert_same_update(
        update(model, batch), update(compiled(build_model()), batch)
    )


def test_r_drop_adds_the_divergence_of_two_dropouts(build_model, batch):
    losses = []
    for weight in (1e-9, 4.0, 8.0):
        # The same seeds, hence the same dropout.
        model = compiled(
            build_model(dropout=0.3), consistency=Consistency("r_drop", weight)
        )
        losses.append(update(model, batch)[0]["loss"])
    assert losses[1] > losses[0] + 1e-3
    np.testing.assert_allclose(
        losses[2] - losses[0], 2 * (losses[1] - losses[0]), rtol=1e-3
    )


def test_simcut_cuts_words_of_the_second_view_alone(build_model, batch):
    inputs, _ = batch
    cut = Consistency("simcut", cut_probability=0.5)
    first, again, other = (
        cut.two_views(inputs, ops.convert_to_tensor(number))
        for number in (4, 4, 5)
    )
    for side in ("source", "target"):
        kept = ops.convert_to_numpy(first[f"{side}_kept"])
        assert kept[:2].all() and not kept[2:].all() and kept[2:].any()
        # A function of the update: a resumed run cuts the same.
        assert (kept == ops.convert_to_numpy(again[f"{side}_kept"])).all()
    assert (
        ops.convert_to_numpy(first["source_kept"])
        != ops.convert_to_numpy(other["source_kept"])
    ).any()
    model = build_model()
    whole = model.decoder_outputs(inputs)
    views = model.decoder_outputs(first)
    np.testing.assert_allclose(views[:2], whole, atol=1e-6)
    assert np.abs(views[2:] - whole).max() > 1e-3


@pytest.mark.parametrize("kind", ["r_drop", "simcut"])
def test_parts_of_a_batch_give_its_update(build_model, batch, kind):
    # Every word of the second view is cut, whichever part it is in.
    consistency = Consistency(kind, cut_probability=1 - 1e-9)
    whole = compiled(build_model(), consistency=consistency)
    parts = compiled(
        build_model(), consistency=consistency, accumulation_steps=2
    )
    assert_same_update(update(parts, batch), update(whole, batch))


def test_parts_of_a_batch_have_other_words_cut(build_model, monkeypatch):
    ids = np.full((2, 40), 7, "int32")
    inputs = {"source_token_ids": ids, "target_token_ids": ids[:, :19]}
    model = compiled(
        build_model(max_length=40),
        consistency=Consistency("simcut", cut_probability=0.5),
        accumulation_steps=2,
    )
    kept = []

    def two_views(self, *arguments):
        views = original(self, *arguments)
        kept.append(ops.convert_to_numpy(views["source_kept"])[1])
        return views

    original = Consistency.two_views
    monkeypatch.setattr(Consistency, "two_views", two_views)
    update(model, (inputs, ids[:, :19]))
    assert len(kept) == 2 and (kept[0] != kept[1]).any()


def test_compile_config_keeps_it(build_model):
    consistency = Consistency("simcut", 2.0, 0.2, seed=7)
    model = compiled(build_model(), consistency=consistency)
    copy = build_model()
    copy.compile_from_config(model.get_compile_config())
    assert copy.consistency == consistency


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "rdrop"}, "one of r_drop, simcut"),
        ({"kind": "r_drop", "weight": 0}, "`weight` .* positive"),
        ({"kind": "r_drop", "weight": float("nan")}, "`weight` .* positive"),
        ({"kind": "simcut", "cut_probability": 1.0}, r"in \(0, 1\)"),
        ({"kind": "simcut", "seed": 0.5}, "`seed` must be a non-negative int"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Consistency(**arguments)


def test_needs_a_loss_over_two_views(build_model):
    with pytest.raises(ValueError, match='"r_drop", "simcut" or None'):
        compiled(build_model(), consistency={"kind": "r_drop"})
    with pytest.raises(ValueError, match="`consistency` needs"):
        compiled(build_model(), loss="mse", consistency="r_drop")
    with pytest.raises(ValueError, match="`consistency` needs"):
        compiled(build_model(), metrics=["accuracy"], consistency="r_drop")
