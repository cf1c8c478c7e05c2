"""The Transformer: blocks, embeddings, dropout, files, precision, training."""

import keras
import numpy as np
import pytest

from relative_attention.models import Transformer
from relative_attention.training import MaskedCrossEntropy

V, D, F, N, K = 23, 12, 17, 3, 2
NORMS = pytest.mark.parametrize(
    "normalize_first", [True, False], ids=["pre", "post"]
)
COMPILED = pytest.mark.only_on(
    "tensorflow", "jax", reason="torch.compile takes a minute a model"
)


def assert_same(result, expected):
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def with_source(inputs, source):
    return {**inputs, "source_token_ids": source}


# === Blocks ===


@NORMS
def test_decode_steps_are_the_full_pass(shared_model, batch, normalize_first):
    inputs, _ = batch
    model = shared_model(
        normalize_first=normalize_first,
        num_encoder_layers=2,
        num_decoder_layers=2,
        share_relations_across_heads=False,
    )
    expected = np.array(model(inputs))
    cache = model.start_cache(inputs["source_token_ids"])
    for position in range(5):
        logits, cache = model.decode_step(
            inputs["target_token_ids"][:, position : position + 1],
            cache,
            position,
        )
        assert logits.shape == (2, 1, V)
        assert_same(logits[:, 0], expected[:, position])


def test_attention_scores_are_distributions_over_what_may_be_seen(
    shared_model, batch
):
    inputs, _ = batch
    scores = shared_model(num_encoder_layers=2).attention_scores(inputs)
    assert {name: len(blocks) for name, blocks in scores.items()} == {
        "encoder": 2,
        "decoder": 1,
        "cross": 1,
    }
    shapes = {
        "encoder": (2, N, 7, 7),
        "decoder": (2, N, 5, 5),
        "cross": (2, N, 5, 7),
    }
    padding = inputs["source_token_ids"] == 0
    for name, blocks in scores.items():
        for block in map(np.array, blocks):
            assert block.shape == shapes[name]
            assert_same(block.sum(-1), np.ones(block.shape[:-1]))
            if name == "decoder":
                assert not np.triu(block, 1).any()
            else:
                hidden = np.broadcast_to(padding[:, None, None], block.shape)
                assert not block[hidden].any()
                assert block[~hidden].all()


# === Embeddings and the number of parameters ===


@pytest.mark.parametrize("share", ["all", "target", "none"])
def test_embeddings_are_shared_as_told(shared_model, batch, share):
    inputs, _ = batch
    sizes = {} if share == "all" else {"source_vocabulary_size": 31}
    model = shared_model(share_embeddings=share, **sizes)
    source, target, output = (
        layer.embeddings
        for layer in (
            model.source_embedding,
            model.target_embedding,
            model.output_embedding,
        )
    )
    assert (source is target) == (share == "all")
    assert (target is output) == (share != "none")
    assert source.shape[0] == sizes.get("source_vocabulary_size", V)
    assert target.shape[0] == output.shape[0] == V
    if sizes:
        # Ids beyond the target vocabulary are source words like any other.
        ids = inputs["source_token_ids"].copy()
        ids[0, 0] = 30
        logits = np.array(model(with_source(inputs, ids)))
        assert logits.shape == (2, 5, V)
        assert np.abs(logits[0] - np.array(model(inputs))[0]).max() > 1e-3


# The numbers of `conftest.SIZES`, added up.
ATTENTION = 4 * D * D
TABLES = 2 * (2 * K + 1) * (D // N)
FEED_FORWARD = D * F + F + F * D + D
ENCODER_BLOCK = ATTENTION + TABLES + FEED_FORWARD + 2 * 2 * D
DECODER_BLOCK = 2 * ATTENTION + TABLES + FEED_FORWARD + 3 * 2 * D
BLOCKS = ENCODER_BLOCK + DECODER_BLOCK


@pytest.mark.parametrize(
    "fields, expected",
    [
        ({}, V * D + BLOCKS),
        ({"normalize_first": True}, V * D + BLOCKS + 2 * 2 * D),
        (
            {"share_relations_across_heads": False},
            V * D + BLOCKS + 2 * (N - 1) * TABLES,
        ),
        ({"use_key_relations": False}, V * D + BLOCKS - TABLES),
        ({"use_value_relations": False}, V * D + BLOCKS - TABLES),
        ({"position_encoding": "sinusoidal"}, V * D + BLOCKS - 2 * TABLES),
        ({"position_encoding": "relative+sinusoidal"}, V * D + BLOCKS),
        (
            {"position_encoding": "learned"},
            V * D + BLOCKS - 2 * TABLES + 2 * 19 * D,
        ),
        (
            {"key_dim": 5},
            V * D
            + BLOCKS
            + 3 * 4 * D * (N * 5 - D)
            + 2 * 2 * (2 * K + 1) * (5 - D // N),
        ),
        (
            {"share_embeddings": "target", "source_vocabulary_size": 31},
            (31 + V) * D + BLOCKS,
        ),
        ({"share_embeddings": "none"}, 3 * V * D + BLOCKS),
        ({"num_decoder_layers": 2}, V * D + BLOCKS + DECODER_BLOCK),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_number_of_parameters_is_the_formula(shared_model, fields, expected):
    model = shared_model(**fields)
    assert model.count_params() == expected
    assert expected == sum(
        np.prod(weight.shape) for weight in model.trainable_weights
    )


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


def test_model_without_dropout_is_the_same_in_training(shared_model, batch):
    inputs, _ = batch
    model = shared_model()
    np.testing.assert_array_equal(model(inputs, training=True), model(inputs))


# === Saving ===


@pytest.mark.parametrize(
    "fields",
    [
        {"share_relations_across_heads": False, "normalize_first": True},
        pytest.param(
            {"position_encoding": "learned", "share_embeddings": "target"},
            marks=pytest.mark.large,
        ),
        pytest.param(
            {
                "position_encoding": None,
                "source_vocabulary_size": 31,
                "share_embeddings": "none",
            },
            marks=pytest.mark.large,
        ),
    ],
    ids=["relative", "learned", "none"],
)
def test_model_survives_its_config_and_a_file(
    tmp_path, shared_model, batch, fields
):
    inputs, _ = batch
    model = shared_model(**fields)
    expected = np.array(model(inputs))
    clone = Transformer.from_config(model.get_config())
    assert clone.config == model.config
    assert clone.name == model.name
    clone.set_weights(model.get_weights())
    np.testing.assert_array_equal(clone(inputs), expected)

    path = tmp_path / "model.keras"
    model.save(path)
    loaded = keras.saving.load_model(path)
    assert isinstance(loaded, Transformer)
    np.testing.assert_array_equal(loaded(inputs), expected)

    path = tmp_path / "model.weights.h5"
    model.save_weights(path)
    clone.set_weights([np.zeros(w.shape) for w in clone.weights])
    clone.load_weights(path)
    np.testing.assert_array_equal(clone(inputs), expected)


def test_compiled_model_goes_on_from_its_file(tmp_path, build_model, batch):
    inputs, labels = batch
    model = build_model()
    model.compile(
        keras.optimizers.Adam(1e-2), MaskedCrossEntropy(), run_eagerly=True
    )
    model.train_on_batch(inputs, labels)
    path = tmp_path / "model.keras"
    model.save(path)
    loaded = keras.saving.load_model(path)
    assert loaded.loss.label_smoothing == 0.1
    loaded.run_eagerly = True
    for either in (model, loaded):
        either.train_on_batch(inputs, labels)
    for weight, other in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(weight, other)


# === Half precision ===


@pytest.mark.parametrize(
    "dtype, tolerance",
    # bfloat16 rounds to 0.4 %, and three blocks add their roundings up.
    [("float16", 1e-2), ("bfloat16", 5e-2)],
)
def test_half_precision_is_near_single(shared_model, batch, dtype, tolerance):
    inputs, labels = batch
    model = shared_model()
    half = Transformer(model.config, dtype=f"mixed_{dtype}")
    half.set_weights(model.get_weights())
    assert {weight.dtype for weight in half.trainable_weights} == {"float32"}
    logits = half(inputs)
    assert keras.backend.standardize_dtype(logits.dtype) == dtype
    expected = np.array(model(inputs))
    difference = np.array(keras.ops.cast(logits, "float32")) - expected
    assert np.abs(difference).max() < tolerance * np.abs(expected).max()
    half.compile(
        keras.optimizers.Adam(1e-2), MaskedCrossEntropy(), run_eagerly=True
    )
    before = half.get_weights()
    # Gradients may be too large for the first loss scale, and the second.
    for _ in range(3 if dtype == "float16" else 1):
        logs = half.train_on_batch(inputs, labels, return_dict=True)
        assert np.isfinite(logs["loss"])
    assert all(np.isfinite(weight).all() for weight in half.get_weights())
    assert any(
        (old != new).any() for old, new in zip(before, half.get_weights())
    )


def test_half_precision_survives_the_config(build_model):
    model = build_model(dtype="mixed_bfloat16")
    clone = Transformer.from_config(model.get_config())
    assert clone.dtype_policy.name == "mixed_bfloat16"
    assert clone.encoder_blocks[0].self_attention.compute_dtype == "bfloat16"


# === Training ===


@pytest.mark.large
def test_fit_learns_a_batch(build_model, batch):
    inputs, labels = batch
    model = build_model(dropout=0.1, attention_dropout=0.1)
    model.compile(
        keras.optimizers.Adam(1e-2), MaskedCrossEntropy(0.0), jit_compile=False
    )
    losses = model.fit(inputs, labels, epochs=30, verbose=0).history["loss"]
    assert losses[-1] < losses[0] / 2


@COMPILED
@pytest.mark.large
def test_compiled_step_is_the_uncompiled_one(build_model, batch):
    inputs, labels = batch
    model = build_model()
    clone = Transformer(model.config)
    clone.set_weights(model.get_weights())
    for either, jit_compile in ((model, False), (clone, True)):
        either.compile(
            keras.optimizers.SGD(0.1),
            MaskedCrossEntropy(),
            jit_compile=jit_compile,
        )
        either.train_on_batch(inputs, labels)
    for weight, other in zip(model.weights, clone.weights, strict=True):
        assert_same(weight, other)


@COMPILED
@pytest.mark.large
def test_compiled_step_takes_dropout(build_model, batch):
    inputs, labels = batch
    model = build_model(
        dropout=0.2, attention_dropout=0.2, intermediate_dropout=0.2
    )
    model.compile(
        keras.optimizers.Adam(1e-2), MaskedCrossEntropy(0.0), jit_compile=True
    )
    losses = model.fit(inputs, labels, epochs=60, verbose=0).history["loss"]
    assert losses[-1] < losses[0] / 2


def test_same_seed_trains_the_same_model(batch):
    inputs, labels = batch

    def train():
        keras.utils.set_random_seed(7)
        model = Transformer.from_preset(
            "transformer_tiny_relative",
            vocabulary_size=V,
            num_encoder_layers=1,
            num_decoder_layers=1,
            hidden_dim=D,
            num_heads=N,
            intermediate_dim=F,
            attention_dropout=0.2,
        )
        initial = model.get_weights()
        model.compile(
            keras.optimizers.SGD(1e-2), MaskedCrossEntropy(), run_eagerly=True
        )
        loss = model.train_on_batch(inputs, labels)[0]
        return initial, loss, model.get_weights()

    first, second = train(), train()
    assert first[1] == second[1]
    for part in (0, 2):
        for weight, other in zip(first[part], second[part], strict=True):
            np.testing.assert_array_equal(weight, other)
