"""What a folder of a model holds: plain weights, all of them numbers."""

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.models.stored_weights import stored_weights
from relative_attention.models.weights import load_weights
from relative_attention.models.weights import save_arrays


def make_model():
    return ra.Transformer.from_preset(
        "transformer_tiny_relative",
        vocabulary_size=13,
        num_encoder_layers=1,
        num_decoder_layers=1,
        hidden_dim=12,
        intermediate_dim=14,
        num_heads=2,
    )


def logits_of(model):
    ids = np.array([[5, 6, 7, 1]])
    inputs = {"source_token_ids": ids, "target_token_ids": ids}
    return np.asarray(model(inputs))


def test_lora_is_merged_into_the_kernels(tmp_path):
    model, rng = make_model(), np.random.default_rng(3)
    for layer in (
        model.encoder_blocks[0].self_attention.query_dense,
        model.decoder_blocks[0].feed_forward.output_dense,
    ):
        layer.enable_lora(2)
        layer.lora_kernel_b.assign(rng.normal(size=layer.lora_kernel_b.shape))
    save_arrays(stored_weights(model, "float32"), tmp_path / "weights")
    plain = make_model()
    load_weights(plain.weights, tmp_path / "weights")
    np.testing.assert_allclose(logits_of(plain), logits_of(model), atol=1e-5)
    assert model.encoder_blocks[0].self_attention.query_dense.lora_enabled


@pytest.mark.int8
def test_quantized_model_is_refused(monkeypatch):
    model = make_model()
    # Keras collects garbage: seconds, after hundreds of other tests.
    monkeypatch.setattr("gc.collect", lambda: 0)
    model.decoder_blocks[0].feed_forward.output_dense.quantize("int8")
    with pytest.raises(ra.InputError, match="must not be quantized.*to int8"):
        stored_weights(model, "float32")


def test_weight_that_would_be_no_number_is_named():
    model = make_model()
    bias = model.decoder_blocks[0].feed_forward.output_dense.bias
    bias.assign(np.where(np.arange(12) == 5, 7e4, 0.0))
    with pytest.raises(
        ra.InputError, match="output/bias with a magnitude of 7"
    ):
        stored_weights(model, "float16")


def test_largest_number_of_float16_is_stored():
    model = make_model()
    bias = model.decoder_blocks[0].feed_forward.output_dense.bias
    bias.assign(np.full(12, 65519.0))
    arrays = stored_weights(model, "float16")
    assert all(array.dtype == np.float16 for array in arrays.values())
