"""Fields of a config: widths of values, shared embeddings, target space."""

import keras
import numpy as np
import pytest

import relative_attention as ra

V, D, N, K = 23, 12, 3, 2
# All at once: what goes wrong with one of them goes wrong with them all.
FIELDS = {
    "key_dim": 5,
    "value_dim": 7,
    "share_relations_across_heads": False,
    "share_embeddings": "source_target",
    "use_target_space_embedding": True,
    "normalize_first": True,
    "attention_bias": True,
    "output_bias": True,
    "start_token_id": 2,
    "first_position": 1,
    "position_encoding": "relative+sinusoidal",
}


def assert_same(result, expected):
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_gradients_reach_every_weight(shared_model, batch, gradients):
    inputs, labels = batch
    model = shared_model(**FIELDS)
    loss = ra.MaskedCrossEntropy(0.0)
    results = gradients(
        lambda: loss(labels, model(inputs)), [], model.trainable_weights
    )
    for weight, gradient in zip(model.trainable_weights, results, strict=True):
        assert np.isfinite(gradient).all(), weight.path
        assert gradient.any(), weight.path


def test_model_survives_its_config(shared_model, batch):
    inputs, _ = batch
    model = shared_model(**FIELDS)
    clone = ra.Transformer.from_config(model.get_config())
    assert clone.config == model.config
    assert all(getattr(clone.config, key) == FIELDS[key] for key in FIELDS)
    clone.set_weights(model.get_weights())
    assert_same(clone(inputs), model(inputs))


def test_decode_steps_are_the_full_pass(shared_model, batch):
    inputs, _ = batch
    model = shared_model(**FIELDS)
    expected = np.array(model(inputs))
    cache = model.start_cache(inputs["source_token_ids"])
    for position in range(expected.shape[1]):
        logits, cache = model.decode_step(
            inputs["target_token_ids"][:, position : position + 1],
            cache,
            position,
        )
        assert_same(np.array(logits)[:, 0], expected[:, position])


@pytest.mark.parametrize("key_dim", [None, 5])
def test_value_dim_is_that_of_every_attention(shared_model, key_dim):
    model = shared_model(value_dim=7, key_dim=key_dim)
    for block in (*model.encoder_blocks, *model.decoder_blocks):
        attention = block.self_attention
        table = attention.value_relation_embeddings
        assert tuple(table.shape) == (2 * K + 1, 7)
        table = attention.key_relation_embeddings
        assert tuple(table.shape) == (2 * K + 1, key_dim or D // N)
        for layer in (attention, getattr(block, "cross_attention", attention)):
            shape = tuple(layer.value_dense.kernel.shape)
            assert shape == (D, N, 7)
            assert tuple(layer.output_dense.kernel.shape) == (N, 7, D)
            shape = tuple(layer.key_dense.kernel.shape)
            assert shape == (D, N, key_dim or D // N)


def test_source_and_target_may_share_what_the_logits_do_not(build_model, batch):
    inputs, _ = batch
    model = build_model(share_embeddings="source_target")
    assert model.source_embedding is model.target_embedding
    output = model.output_embedding.embeddings
    assert output is not model.source_embedding.embeddings
    assert tuple(output.shape) == (V, D)
    # Logits are linear in the one, and see nothing of it elsewhere.
    expected = 2 * np.array(model(inputs))
    output.assign(2 * np.array(output))
    assert_same(model(inputs), expected)
    matrices = [w for w in model.weights if w.path.endswith("/embeddings")]
    assert len(matrices) == 2


def test_two_vocabularies_cannot_share_source_and_target():
    with pytest.raises(ValueError) as error:
        ra.TransformerConfig(
            vocabulary_size=11,
            source_vocabulary_size=13,
            share_embeddings="source_target",
        )
    assert str(error.value) == (
        '`share_embeddings` must be "target" or "none" where the vocabularies '
        "differ. Received: share_embeddings='source_target', "
        "source_vocabulary_size=13, vocabulary_size=11."
    )


def test_target_space_is_added_to_every_source_embedding(build_model, batch):
    inputs, _ = batch
    fields = {"share_embeddings": "target", "position_encoding": "learned"}
    model = build_model(use_target_space_embedding=True, **fields)
    plain = build_model(**fields)
    vector = model.target_space_embedding.embedding
    others = [w for w in model.trainable_weights if w is not vector]
    for weight, other in zip(plain.trainable_weights, others, strict=True):
        weight.assign(other)
    logits = np.array(model(inputs))
    assert np.abs(logits - np.array(plain(inputs))).max() > 1e-2
    # As well as added, it can be part of each row, which is scaled.
    rows = plain.source_embedding.embeddings
    rows.assign(np.array(rows) + np.array(vector) / D**0.5)
    assert_same(plain(inputs), logits)


@pytest.mark.parametrize("value_dim", [0, 2.0, True])
def test_wrong_value_dim_is_refused(value_dim):
    with pytest.raises(ValueError) as error:
        ra.TransformerConfig(vocabulary_size=11, value_dim=value_dim)
    assert str(error.value) == (
        "`value_dim` must be an int of at least 1. "
        f"Received: value_dim={value_dim!r}."
    )


def test_biases_are_those_of_every_attention_and_of_the_logits(
    build_model, batch
):
    inputs, _ = batch
    names = {"attention_bias": True, "output_bias": True}
    model, plain = build_model(**names), build_model()
    added = len(model.weights) - len(plain.weights)
    # An encoder block, a decoder block with two attentions, the logits.
    assert added == 4 * (1 + 2) + 1
    for block in (*model.encoder_blocks, *model.decoder_blocks):
        for name in ("self_attention", "cross_attention"):
            layer = getattr(block, name, block.self_attention)
            assert tuple(layer.query_dense.bias.shape) == (N, D // N)
            assert tuple(layer.output_dense.bias.shape) == (D,)
    logits = np.array(model(inputs))
    bias = np.array(model.output_bias)
    model.output_bias.assign(bias + np.arange(V))
    assert_same(model(inputs), logits + np.arange(V))
    cache = model.start_cache(inputs["source_token_ids"])
    first, _ = model.decode_step(inputs["target_token_ids"][:, :1], cache, 0)
    assert_same(np.array(first)[:, 0], (logits + np.arange(V))[:, 0])


def test_output_bias_works_in_half_precision(build_model, batch):
    inputs, _ = batch
    model = build_model(dtype="mixed_bfloat16", output_bias=True)
    full = build_model(output_bias=True)
    full.set_weights(model.get_weights())
    cache = model.start_cache(inputs["source_token_ids"])
    first, _ = model.decode_step(inputs["target_token_ids"][:, :1], cache, 0)
    expected = np.array(full(inputs))[:, 0]
    assert keras.backend.standardize_dtype(first.dtype) == "bfloat16"
    first = np.array(keras.ops.cast(first, "float32"))[:, 0]
    np.testing.assert_allclose(first, expected, atol=0.1)


def test_start_token_id_is_that_of_the_config(shared_model):
    assert shared_model().start_token_id == 0
    assert shared_model(**FIELDS).start_token_id == 2


@pytest.mark.parametrize(
    "field, value, allowed",
    [
        ("start_token_id", -1, "an int of at least 0"),
        (
            "start_token_id",
            11,
            "an id of the target vocabulary, below 11",
        ),
        ("first_position", 0.5, "an int of at least 0"),
    ],
)
def test_wrong_start_is_refused(field, value, allowed):
    with pytest.raises(ValueError) as error:
        ra.TransformerConfig(**{"vocabulary_size": 11, field: value})
    assert str(error.value) == (
        f"`{field}` must be {allowed}. Received: {field}={value!r}."
    )
