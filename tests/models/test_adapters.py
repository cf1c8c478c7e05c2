"""A Transformer in int8, and one with adapters: numbers, training, files."""

import warnings

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.models.adapters import lora_variables
from relative_attention.models.weights import stored_weights
from tests.models.conftest import build

IDS = np.array([[5, 6, 7, 20, 1], [9, 8, 1, 0, 0]])
INPUTS = {"source_token_ids": IDS, "target_token_ids": IDS[:, ::-1].copy()}


# Not every Keras that the other tests run with has it.
INT8 = pytest.param(True, marks=pytest.mark.int8)


def weights_only():
    return keras.quantizers.Int8QuantizationConfig(activation_quantizer=None)


def logits_of(model):
    return np.asarray(keras.ops.convert_to_numpy(model(INPUTS)))


def arrays_of(variables):
    return [keras.ops.convert_to_numpy(variable) for variable in variables]


def adapt(model, rank=2, names=None):
    rng = np.random.default_rng(3)
    model.enable_lora(rank, names)
    for variable in lora_variables(model):
        variable.assign(0.3 * rng.normal(size=variable.shape))
    return model


def path_of(weight):
    return weight.path.split("/", 1)[1]


def plain_of(model):
    """A plain model with the weights that int8 and adapters stand for."""
    plain = build(share_embeddings=model.config.share_embeddings)
    arrays = dict(zip(map(path_of, model.weights), arrays_of(model.weights)))
    for weight in plain.weights:
        layer, _, name = path_of(weight).rpartition("/")
        value = arrays[f"{layer}/{name}"].astype("float64")
        if f"{layer}/{name}_scale" in arrays:
            scale = arrays[f"{layer}/{name}_scale"].reshape(-1)
            # One for each row of embeddings, and for each output of kernels,
            # whose last axes those are.
            if name == "embeddings":
                value /= scale[:, None]
            else:
                columns = value.reshape(-1, scale.size) / scale
                value = columns.reshape(value.shape)
        if f"{layer}/lora_{name}_a" in arrays:
            value += np.matmul(
                *(arrays[f"{layer}/lora_{name}_{part}"] for part in "ab")
            )
        weight.assign(value)
    return plain


@pytest.mark.parametrize(
    "share_embeddings, embedding",
    [("all", "embedding"), ("none", "output_embedding")],
)
@pytest.mark.parametrize("is_int8", [False, INT8], ids=["float", "int8"])
def test_int8_logits_match_the_dequantized_weights(
    share_embeddings, embedding, is_int8
):
    model = build(share_embeddings=share_embeddings)
    before = logits_of(model)
    if is_int8:
        model.quantize(config=weights_only())
        logits = logits_of(model)
        np.testing.assert_allclose(
            logits, logits_of(plain_of(model)), atol=1e-4
        )
        difference = np.abs(logits - before).max()
        assert 1e-4 < difference < 0.1 * np.abs(before).max()
    adapt(model, names=["query", "output", embedding])
    logits = logits_of(model)
    assert np.abs(logits - before).max() > 0.1
    np.testing.assert_allclose(
        logits, logits_of(plain_of(model)), rtol=1e-5, atol=1e-4
    )


def test_adapters_are_merged_in_float32():
    model = adapt(build(dtype="mixed_bfloat16"))
    merged = stored_weights(model, "float32")
    expected = {path_of(w): np.array(w) for w in plain_of(model).weights}
    assert merged.keys() == expected.keys()
    for name, array in merged.items():
        np.testing.assert_allclose(
            array, expected[name], rtol=1e-6, atol=1e-6, err_msg=name
        )


# === int8 ===


@pytest.mark.int8
def test_every_large_matrix_is_int8_without_warnings():
    model = build(share_embeddings="none")
    with pytest.raises(ValueError, match='`mode` must be "int8". Received'):
        model.quantize("int4")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model.quantize("int8")
    with pytest.raises(ValueError, match="is quantized already"):
        model.quantize("int8")
    for weight in model.weights:
        name = weight.path.rpartition("/")[2]
        is_matrix = name in ("kernel", "embeddings")
        assert (weight.dtype == "int8") == is_matrix, weight.path


@pytest.mark.int8
def test_int8_is_saved_and_loaded(tmp_path):
    model = build()
    model.quantize("int8", filters=lambda layer: layer.name != "key")
    logits = logits_of(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(logits_of(loaded), logits)
    assert loaded.encoder_blocks[0].self_attention.key_dense.kernel.dtype == (
        "float32"
    )
    model.save_weights(tmp_path / "of.weights.h5")
    other = build()
    other.quantize("int8", filters=["^(?!key)"])
    for weight in other.weights:
        weight.assign(np.zeros(weight.shape))
    other.load_weights(tmp_path / "of.weights.h5")
    np.testing.assert_array_equal(logits_of(other), logits)


# === Adapters ===


def test_new_adapters_change_no_logits_and_are_trained_alone():
    model = build(attention_bias=True, output_bias=True)
    before = logits_of(model)
    model.enable_lora(3)
    np.testing.assert_allclose(logits_of(model), before, rtol=1e-5, atol=1e-5)
    names = {variable.name for variable in model.trainable_variables}
    assert names == {"lora_kernel_a", "lora_kernel_b"}
    # Query and value of three attentions.
    assert len(model.trainable_variables) == 2 * 2 * 3


@pytest.mark.parametrize("names", [None, ["query", "output", "embedding"]])
@pytest.mark.parametrize("is_int8", [False, INT8], ids=["float", "int8"])
@pytest.mark.only_on("tensorflow", reason="the exact step")
def test_adapters_are_updated_by_their_gradients(names, is_int8):
    import tensorflow as tf

    model = build()
    if is_int8:
        model.quantize(config=weights_only())
    adapt(model, names=names)
    adapters = list(model.trainable_variables)
    frozen = [v for v in model.weights if not v.trainable]
    before, still = arrays_of(adapters), arrays_of(frozen)
    labels = np.array([[4, 2, 9, 3, 1], [3, 1, 0, 0, 0]])
    with tf.GradientTape() as tape:
        log_probabilities = tf.nn.log_softmax(model(INPUTS, training=True))
        chosen = tf.gather(log_probabilities, labels, batch_dims=2)
        mask = tf.cast(labels != 0, "float32")
        loss = -tf.reduce_sum(chosen * mask) / tf.reduce_sum(mask)
    gradients = tape.gradient(loss, [v.value for v in adapters])
    model.compile(
        keras.optimizers.SGD(0.5),
        ra.MaskedCrossEntropy(label_smoothing=0.0),
        metrics=[ra.TokenAccuracy()],
        run_eagerly=True,
    )
    assert model.scoring_loss is not None
    history = model.fit(INPUTS, labels, batch_size=2, verbose=0).history
    assert history["loss"][0] == pytest.approx(float(loss), rel=1e-5)
    for variable, old, gradient in zip(adapters, before, gradients):
        gradient = np.asarray(tf.convert_to_tensor(gradient))
        assert np.abs(gradient).max() > 1e-5, variable.path
        np.testing.assert_allclose(
            arrays_of([variable])[0], old - 0.5 * gradient, atol=1e-5
        )
    for variable, old in zip(arrays_of(frozen), still):
        np.testing.assert_array_equal(variable, old)


@pytest.mark.parametrize("names", [None, ["key", "intermediate", "embedding"]])
def test_adapters_are_saved_and_loaded(names, tmp_path):
    model = adapt(build(), names=names)
    logits = logits_of(model)
    model.save_lora_weights(tmp_path / "mine.safetensors")
    plain = build()
    plain.load_lora_weights(tmp_path / "mine.safetensors")
    np.testing.assert_array_equal(logits_of(plain), logits)
    assert list(map(path_of, plain.trainable_variables)) == list(
        map(path_of, model.trainable_variables)
    )
    # Into a model that has such already.
    other = build()
    other.enable_lora(2, names)
    other.load_lora_weights(tmp_path / "mine.safetensors")
    np.testing.assert_array_equal(logits_of(other), logits)


def test_saved_model_has_the_sum(tmp_path):
    model = adapt(build())
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert not lora_variables(loaded)
    np.testing.assert_allclose(logits_of(loaded), logits_of(model), atol=1e-5)


def test_adapters_of_another_model_are_refused(tmp_path):
    path = tmp_path / "mine.safetensors"
    model = build()
    with pytest.raises(ValueError, match="has no adapters. Call `enable_lora"):
        model.save_lora_weights(path)
    adapt(build(num_decoder_layers=2)).save_lora_weights(path)
    with pytest.raises(ra.InputError, match="holds no adapters of this model"):
        model.load_lora_weights(path)
    adapt(build(hidden_dim=6)).save_lora_weights(path)
    with pytest.raises(ra.InputError, match="look at .*query/lora_kernel_"):
        model.load_lora_weights(path)
    assert not lora_variables(model)
    assert len(model.trainable_variables) == len(model.weights)
    adapt(build(), rank=3).save_lora_weights(path)
    model.enable_lora(2)
    with pytest.raises(ra.InputError, match="must have shape"):
        model.load_lora_weights(path)


def test_wrong_rank_or_name_is_refused():
    model = build()
    with pytest.raises(ValueError, match="`rank` must be"):
        model.enable_lora(0)
    with pytest.raises(ValueError, match="can be adapted: embedding,.*'quary'"):
        model.enable_lora(2, ["value", "quary"])
    with pytest.raises(ValueError, match=r"target_layer_names=\[\]"):
        model.enable_lora(2, [])
    assert len(model.trainable_variables) == len(model.weights)
    model.enable_lora(2)
    with pytest.raises(ValueError, match="has adapters already"):
        model.enable_lora(2)
