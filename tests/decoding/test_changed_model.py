"""A model that changes after a search, and the graphs from before."""

import numpy as np
import pytest
import tensorflow as tf

import relative_attention as ra
from relative_attention.decoding.forward_key import forward_key

SOURCE = np.array([[5, 11, 2, 8, 1]])


class Numbers:
    """Sentences are ids with blanks between."""

    end_id = 1

    def encode(self, lines):
        return [[int(word) for word in line.split()] for line in lines]

    def decode(self, rows):
        return [" ".join(str(i) for i in row if i > 1) for row in rows]


def make_model(seed=53):
    model = ra.Transformer.from_preset(
        "transformer_tiny_relative",
        vocabulary_size=13,
        num_encoder_layers=1,
        num_decoder_layers=1,
        hidden_dim=12,
        intermediate_dim=14,
        num_heads=2,
        max_relative_position=2,
        normalize_first=False,
    )
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(rng.normal(0, 0.5, weight.shape))
    return model


@pytest.fixture
def model():
    return make_model()


def score(model):
    (score,) = ra.score_translations(
        ra.Translator(model, Numbers()), ["5 11 2 8"], ["7 3 9"]
    )
    return score.log_probability


def search(model):
    return float(ra.beam_search(model, SOURCE, max_length=3)["scores"][0, 0])


def draw(model):
    """The likeliest tokens, so that no number is on the edge of another."""
    results = ra.sample(model, SOURCE, seed=3, max_length=3, top_k=1)
    return float(results["scores"][0, 0])


def adapted_layers(model):
    return (
        model.encoder_blocks[0].self_attention.query_dense,
        model.decoder_blocks[0].self_attention.value_dense,
        model.decoder_blocks[0].feed_forward.output_dense,
    )


def enable_lora(model):
    rng = np.random.default_rng(7)
    for layer in adapted_layers(model):
        layer.enable_lora(2)
        layer.lora_kernel_b.assign(rng.normal(size=layer.lora_kernel_b.shape))


def replace_a_layer(model):
    model.encoder_blocks[0] = make_model(seed=8).encoder_blocks[0]


def quantize(model):
    model.decoder_blocks[0].feed_forward.output_dense.quantize("int8")


def change_a_number(model):
    model.decoder_blocks[0].feed_forward_norm.epsilon = 0.5


def check(model, change, functions):
    before = [function(model) for function in functions]
    change(model)
    after = [function(model) for function in functions]
    tf.config.run_functions_eagerly(True)
    try:
        expected = [function(model) for function in functions]
    finally:
        tf.config.run_functions_eagerly(False)
    assert after == pytest.approx(expected, abs=1e-5)
    assert all(abs(a - b) > 1e-4 for a, b in zip(after, before))


@pytest.mark.parametrize(
    "change",
    [replace_a_layer, quantize, change_a_number],
    ids=lambda change: change.__name__,
)
def test_scores_are_those_of_the_model_as_it_is(model, change):
    check(model, change, [score])


@pytest.mark.large
def test_lora_is_honoured_in_search_sampling_and_scores(model):
    check(model, enable_lora, [search, draw, score])


def test_lora_gives_what_its_merged_kernels_give(model):
    enable_lora(model)
    adapted = [search(model), score(model)]
    merged = make_model()
    for layer, plain in zip(adapted_layers(model), adapted_layers(merged)):
        plain.kernel.assign(layer.kernel)
    expected = [search(merged), score(merged)]
    assert adapted == pytest.approx(expected, abs=1e-5)


def test_what_training_keeps_with_a_model_is_no_change(model):
    ids = np.array([[5, 11, 1]])
    batch = {"source_token_ids": ids, "target_token_ids": ids}
    score(model)
    key, _ = forward_key(model)
    model.compile(optimizer="sgd", loss=ra.MaskedCrossEntropy())
    model.fit(batch, ids, verbose=0)
    model.stop_training = True
    assert forward_key(model)[0] == key


def test_dtype_policy_and_frozen_layers_are_changes(model):
    keys = [forward_key(model)[0]]
    model.decoder_blocks[0].feed_forward.output_dense.dtype_policy = "bfloat16"
    keys.append(forward_key(model)[0])
    model.encoder_blocks[0].trainable = False
    keys.append(forward_key(model)[0])
    assert keys[0] != keys[1] != keys[2]
