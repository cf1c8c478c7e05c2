"""The Transformer: fields, inputs, dropout, files, precision, training."""

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.layers.positions import POSITION_ENCODINGS
from relative_attention.layers.positions import PositionEncoding
from relative_attention.models import Transformer
from relative_attention.models.transformer import decoder_inputs
from relative_attention.training import MaskedCrossEntropy
from tests.models.test_position_encodings import FIELDS
from tests.small_models import corpus_of

V, N = 23, 3
COMPILED = pytest.mark.only_on(
    "tensorflow", "jax", reason="torch.compile takes a minute a model"
)


def assert_same(result, expected):
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


# === What it is given ===


def ids(*shape):
    return np.full(shape, 5, "int32")


def inputs(source, target):
    return {"source_token_ids": source, "target_token_ids": target}


@pytest.mark.only_on("tensorflow", reason="it is a SavedModel")
def test_export_needs_no_call_and_no_signature(
    shared_model, batch, tmp_path, capfd
):
    import tensorflow as tf

    model = shared_model()
    model.export(tmp_path / "exported", verbose=False)
    served = tf.saved_model.load(str(tmp_path / "exported"))
    np.testing.assert_allclose(
        served.serve(batch[0]), model(batch[0]), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize(
    "wrong, message",
    [
        ((ids(2, 3), ids(2, 3)), "Received: a tuple."),
        ({"source_token_ids": ids(2, 3)}, '"target_token_ids"'),
        (inputs(ids(3), ids(2, 3)), "expected ndim=2, found ndim=1"),
        (
            inputs(ids(1, 3), ids(2, 3)),
            "`source_token_ids` and `target_token_ids` must have the same "
            "number of rows. Received shapes: .1, 3. and .2, 3...",
        ),
        (inputs(ids(2, 3), -ids(2, 3)), "Token ids must be from 0 to 22"),
        (inputs(ids(2, 3), 0.5 * ids(2, 3)), "Token ids must be integers"),
    ],
)
def test_wrong_inputs_are_refused_with_what_is_allowed(
    shared_model, wrong, message
):
    model = shared_model()
    with pytest.raises(ValueError, match=message):
        model(wrong)


def test_methods_refuse_wrong_inputs_too(shared_model):
    model = shared_model()
    with pytest.raises(ValueError, match=r"two axes.* Received shape: \(3,\)"):
        model.encode(ids(3))
    for method in (model.attention_scores, model.attention_terms):
        with pytest.raises(ValueError, match="source_token_ids"):
            method({"target_token_ids": ids(1, 1)})


def test_source_ids_are_checked_against_the_source_vocabulary(build_model):
    model = build_model(source_vocabulary_size=29, share_embeddings="target")
    with pytest.raises(ValueError, match="ids from 0 to 28"):
        ra.beam_search(model, [[29, 1]])


def test_wrong_config_is_refused_with_the_way_out():
    with pytest.raises(TypeError, match="Received: config=1000.*from_preset"):
        Transformer(1000)


# === Attention ===


TERMS = {
    "relative": {},
    "relative, K = 0": {"max_relative_position": 0},
    **{name: {"position_encoding": name} for name in POSITION_ENCODINGS},
}


@pytest.mark.parametrize("name", TERMS, ids=str)
def test_terms_of_attention_have_its_scores(shared_model, batch, name):
    inputs, _ = batch
    model = shared_model(**TERMS[name])
    terms = model.attention_terms(inputs)
    expected = model.attention_scores(inputs)
    names = POSITION_ENCODINGS[model.config.position_encoding]
    adds = names.attention_class().logits is not PositionEncoding.logits
    assert terms.keys() == expected.keys()
    for kind, (block,) in terms.items():
        (scores,) = expected[kind]
        np.testing.assert_allclose(block.scores, scores, atol=1e-5)
        has_position = block.position_logits is not None
        assert has_position == (kind != "cross" and adds)


# === Embeddings ===


@pytest.mark.parametrize("share", ["all", "target", "source_target", "none"])
def test_embeddings_are_shared_as_configured(shared_model, batch, share):
    inputs, _ = batch
    has_one = share in ("all", "source_target")
    sizes = {} if has_one else {"source_vocabulary_size": 31}
    model = shared_model(share_embeddings=share, **sizes)
    source, target, output = (
        layer.embeddings
        for layer in (
            model.source_embedding,
            model.target_embedding,
            model.output_embedding,
        )
    )
    assert (source is target) == has_one
    assert (target is output) == (share in ("all", "target"))
    assert source.shape[0] == (V if has_one else 31)
    assert target.shape[0] == output.shape[0] == V
    if not has_one:
        # Ids beyond the target vocabulary are source words like any other.
        ids = inputs["source_token_ids"].copy()
        ids[0, 0] = 30
        logits = np.array(model({**inputs, "source_token_ids": ids}))
        assert logits.shape == (2, 5, V)
        assert np.abs(logits[0] - np.array(model(inputs))[0]).max() > 1e-3


# === Fields of the config ===


def test_gradients_reach_every_weight(shared_model, batch, gradients):
    inputs, labels = batch
    model = shared_model(**FIELDS)
    loss = MaskedCrossEntropy(0.0)
    results = gradients(
        lambda: loss(labels, model(inputs)), [], model.trainable_weights
    )
    for weight, gradient in zip(model.trainable_weights, results, strict=True):
        assert np.isfinite(gradient).all(), weight.path
        assert gradient.any(), weight.path


# === Dropout ===


@pytest.mark.parametrize(
    "field", ["dropout", "attention_dropout", "intermediate_dropout"]
)
def test_each_dropout_is_active_only_in_training(build_model, batch, field):
    inputs, _ = batch
    model = build_model(**{field: 0.5})
    expected = np.array(model(inputs))
    np.testing.assert_array_equal(model(inputs, training=False), expected)
    first, second = (np.array(model(inputs, training=True)) for _ in range(2))
    assert np.abs(first - expected).max() > 1e-2
    assert np.abs(second - first).max() > 1e-2


# === Saving ===


@pytest.mark.parametrize(
    "fields",
    [
        FIELDS,
        pytest.param(
            {
                "position_encoding": None,
                "source_vocabulary_size": 31,
                "share_embeddings": "none",
            },
            marks=pytest.mark.large,
        ),
    ],
    ids=["all_fields", "none"],
)
def test_model_is_restored_from_its_config_and_a_file(
    tmp_path, shared_model, batch, fields
):
    inputs, _ = batch
    model = shared_model(**fields)
    expected = np.array(model(inputs))
    path = tmp_path / "model.keras"
    model.save(path)
    loaded = keras.saving.load_model(path)
    assert (loaded.config, loaded.name) == (model.config, model.name)
    np.testing.assert_array_equal(loaded(inputs), expected)
    path = tmp_path / "model.weights.h5"
    model.save_weights(path)
    loaded.set_weights([np.zeros(w.shape) for w in loaded.weights])
    loaded.load_weights(path)
    np.testing.assert_array_equal(loaded(inputs), expected)


# === Half precision ===


@pytest.mark.parametrize(
    "dtype, tolerance",
    # bfloat16 rounds to 0.4 %, and three blocks add their roundings up.
    [("float16", 1e-2), ("bfloat16", 5e-2)],
)
def test_half_precision_is_near_single(shared_model, batch, dtype, tolerance):
    inputs, _ = batch
    model = shared_model()
    half = Transformer(model.config, dtype=f"mixed_{dtype}")
    half = Transformer.from_config(half.get_config())
    half.set_weights(model.get_weights())
    assert {weight.dtype for weight in half.trainable_weights} == {"float32"}
    logits = half(inputs)
    assert keras.backend.standardize_dtype(logits.dtype) == dtype
    expected = np.array(model(inputs))
    difference = np.array(keras.ops.cast(logits, "float32")) - expected
    assert np.abs(difference).max() < tolerance * np.abs(expected).max()


# === Training ===


@COMPILED
@pytest.mark.large
def test_compiled_step_works_with_dropout(build_model, batch):
    inputs, labels = batch
    model = build_model(
        dropout=0.2, attention_dropout=0.2, intermediate_dropout=0.2
    )
    model.compile(
        keras.optimizers.Adam(1e-2), MaskedCrossEntropy(0.0), jit_compile=True
    )
    losses = model.fit(inputs, labels, epochs=60, verbose=0).history["loss"]
    assert losses[-1] < losses[0] / 2


# === Labels behind the start token ===


@pytest.mark.parametrize(
    "convert",
    [np.asarray, keras.ops.convert_to_tensor],
    ids=["array", "tensor"],
)
@pytest.mark.parametrize(
    ("labels", "inputs"),
    [
        ([[9, 7, 3, 1], [8, 1, 0, 0]], [[5, 9, 7, 3], [5, 8, 1, 0]]),
        ([[[9, 1]], [[8, 4]]], [[[5, 9]], [[5, 8]]]),
        (np.zeros((2, 3, 0)), np.zeros((2, 3, 0))),
    ],
    ids=["rows", "beams", "none"],
)
def test_decoder_inputs_are_labels_after_the_start(convert, labels, inputs):
    labels = convert(np.array(labels, np.int32))
    found = decoder_inputs(labels, start_token_id=5)
    assert isinstance(found, type(labels))
    assert keras.backend.standardize_dtype(found.dtype) == "int32"
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(found), inputs)


def test_methods_train_as_the_model_around_them(build_model):
    class Around(keras.Model):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner
            self.dropout = keras.layers.Dropout(0.5)

        def call(self, inputs):
            encoded = self.inner.encode(inputs["source_token_ids"])
            decoded = self.inner.decoder_outputs(inputs)
            return encoded, decoded, self.dropout(decoded)

    ids = np.array([[5, 6, 7, 20, 1]])
    inputs = {"source_token_ids": ids, "target_token_ids": ids}
    around = Around(build_model(dropout=0.5))
    for plain, trained in zip(around(inputs), around(inputs, training=True)):
        assert np.abs(np.array(plain) - np.array(trained)).max() > 0.01
    assert (np.array(trained) == 0).any()


def test_batches_with_another_start_are_refused(build_model):
    model = build_model(start_token_id=2)
    model.compile()
    own, others = (
        ra.TokenBatches(corpus_of([3, 2]), 16, start_token_id=start)
        for start in (2, 0)
    )
    for call in (
        lambda: model.fit(others),
        lambda: model.fit(own, validation_data=others),
        lambda: model.evaluate(others),
    ):
        with pytest.raises(ValueError, match="need `start_token_id=2`"):
            call()
