"""Training on strings is the training of `Transformer` on their ids."""

import keras
import keras_hub
import numpy as np
import pytest

import relative_attention as ra
from tests.small_models import SOURCES
from tests.small_models import TARGETS
from tests.small_models import dataset
from tests.small_models import id_batches
from tests.small_models import make_task
from tests.small_models import make_translator


def compiled(task, **options):
    """The task with an optimizer whose updates say what the gradients are."""
    task.compile(optimizer=keras.optimizers.SGD(0.05), **options)
    return task


def assert_same_weights(task, model):
    for weight, other in zip(task.transformer.weights, model.weights):
        np.testing.assert_allclose(
            np.asarray(weight),
            np.asarray(other),
            rtol=0,
            atol=1e-6,
            err_msg=weight.path,
        )


@pytest.mark.only_on("tensorflow", reason="data sets are TensorFlow's")
@pytest.mark.parametrize(
    "separate", [False, pytest.param(True, marks=pytest.mark.large)]
)
def test_fit_on_strings_is_fit_on_their_ids(separate):
    import tensorflow as tf

    translator = make_translator(separate)
    model = translator.model
    before = [np.array(weight) for weight in model.weights]
    model.compile(
        keras.optimizers.SGD(0.05),
        ra.MaskedCrossEntropy(0.1),
        weighted_metrics=[ra.Perplexity(), ra.TokenAccuracy()],
        run_eagerly=True,
    )
    expected = model.fit(
        dataset(*id_batches(translator, 3)),
        steps_per_epoch=3,
        verbose=0,
        shuffle=False,
    ).history
    changes = [np.abs(w - old).max() for w, old in zip(model.weights, before)]
    assert max(changes) > 1e-2

    task = compiled(make_task(separate))
    assert task.scoring_loss is not None
    pairs = tf.data.Dataset.from_tensor_slices((SOURCES, TARGETS)).batch(3)
    history = task.fit(pairs, verbose=0).history
    assert_same_weights(task, model)
    assert history.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(history[name], values, rtol=2e-5)
    # KerasHub's form.
    task = compiled(make_task(separate), run_eagerly=True)
    texts = {"encoder_text": SOURCES, "decoder_text": TARGETS}
    task.fit(texts, batch_size=3, verbose=0)
    assert_same_weights(task, model)


@pytest.mark.large
def test_other_losses_and_metrics_work(joint):
    task = make_task()
    compiled(
        task,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=[
            keras_hub.metrics.Perplexity(from_logits=True, mask_token_id=0)
        ],
        metrics=[ra.Perplexity(name="ours")],
    )
    assert task.scoring_loss is None
    shown = task.evaluate(
        SOURCES, TARGETS, batch_size=3, verbose=0, return_dict=True
    )
    # Both perplexities are the same figure.
    assert shown["perplexity"] == pytest.approx(shown["ours"], rel=1e-5)
    assert shown["ours"] > 2
    task.fit(SOURCES, TARGETS, verbose=0)


@pytest.mark.large
def test_weights_of_pairs_count():
    weights = np.eye(1, len(SOURCES), dtype="float32")[0]
    task, other = compiled(make_task()), compiled(make_task())
    task.fit(SOURCES, TARGETS, sample_weight=weights, verbose=0)
    other.fit(SOURCES[:1], TARGETS[:1], verbose=0)
    assert_same_weights(task, other.transformer)


@pytest.mark.large
def test_validation_and_evaluate_work():
    task = compiled(make_task())
    history = task.fit(
        SOURCES, TARGETS, validation_split=0.3, epochs=2, verbose=0
    ).history
    last = {"encoder_text": SOURCES[4:], "decoder_text": TARGETS[4:]}
    evaluation = task.evaluate(last, verbose=0, return_dict=True)
    assert evaluation["loss"] == pytest.approx(
        history["val_loss"][-1], rel=1e-5
    )


def test_prediction_needs_no_targets(joint):
    logits = joint.predict(SOURCES[:2], verbose=0)
    assert logits.shape[0] == 2 and logits.shape[-1] == 281
    both = joint.predict(
        {"encoder_text": SOURCES[:2], "decoder_text": TARGETS[:2]}, verbose=0
    )
    np.testing.assert_allclose(logits[:, 0], both[:, 0], rtol=0, atol=1e-5)


# === Bad input ===


def test_unequal_numbers_of_texts_are_refused(joint):
    with pytest.raises(ra.InputError, match="7 of `encoder_text`, 2 of"):
        joint.fit({"encoder_text": SOURCES, "decoder_text": TARGETS[:2]})
    with pytest.raises(ra.InputError, match="2 of `sample_weight`"):
        joint.fit(SOURCES, TARGETS, sample_weight=[1.0, 2.0])
    both = {"encoder_text": SOURCES, "decoder_text": TARGETS}
    with pytest.raises(ra.InputError, match="given once"):
        joint.preprocessor(both, TARGETS)
    with pytest.raises(ra.InputError, match='key "encoder_text"'):
        joint.preprocessor({"decoder_text": TARGETS})


@pytest.mark.only_on("tensorflow", reason="data sets are TensorFlow's")
def test_sources_without_targets_are_refused(joint):
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices
    for x in (SOURCES, {"encoder_text": SOURCES}, dataset(SOURCES)):
        with pytest.raises(ra.InputError, match="Received: `y=None`"):
            joint.fit(x)
    pairs = dataset((SOURCES, TARGETS)).batch(3)
    with pytest.raises(ra.InputError, match="`validation_split` takes"):
        joint.fit(pairs, validation_split=0.3)
