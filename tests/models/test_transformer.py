"""The Transformer: fields, inputs, dropout, files, precision, training."""

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.models import Transformer
from relative_attention.models.transformer import decoder_inputs
from relative_attention.positions import POSITION_ENCODINGS
from relative_attention.positions import PositionEncoding
from relative_attention.training import MaskedCrossEntropy

V, D, F, N, K = 23, 12, 17, 3, 2
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
COMPILED = pytest.mark.only_on(
    "tensorflow", "jax", reason="torch.compile takes a minute a model"
)


def assert_same(result, expected):
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def with_source(inputs, source):
    return {**inputs, "source_token_ids": source}


# === What it is given ===


def ids(*shape):
    return np.full(shape, 5, "int32")


def inputs(source, target):
    return {"source_token_ids": source, "target_token_ids": target}


def test_shapes_are_known_without_a_call(shared_model):
    model = shared_model()
    assert model.input_shape == inputs((None, None), (None, None))
    assert model.output_shape == (None, None, 23)


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
        (ids(2, 3), "but it received 1 input tensors"),
        ({"source_token_ids": ids(2, 3)}, '"target_token_ids"'),
        (inputs(ids(3), ids(2, 3)), "expected ndim=2, found ndim=1"),
        (inputs(ids(2, 3), ids(2, 3, 1)), "expected ndim=2, found ndim=3"),
        (
            inputs(ids(1, 3), ids(2, 3)),
            "`source_token_ids` and `target_token_ids` must be of as many "
            "sentences. Received shapes: (1, 3) and (2, 3).",
        ),
        (inputs(ids(2, 3), -ids(2, 3)), "Token ids must be from 0 to 22"),
        (inputs(ids(2, 3), 0.5 * ids(2, 3)), "Token ids must be integers"),
    ],
    ids=[
        "tuple",
        "tensor",
        "no_target",
        "one_axis",
        "three_axes",
        "other_batch",
        "negative",
        "float",
    ],
)
def test_wrong_inputs_are_refused_with_what_is_allowed(
    shared_model, wrong, message
):
    with pytest.raises(ValueError) as error:
        shared_model()(wrong)
    assert message in str(error.value)


def test_encoder_names_ids_of_another_rank(shared_model):
    model = shared_model()
    with pytest.raises(ValueError) as error:
        model.encode(ids(3))
    assert str(error.value) == (
        "`source_token_ids` must have two axes, a row for each sentence. "
        "Received shape: (3,)."
    )
    with pytest.raises(ValueError, match="Received: a tuple."):
        model.attention_scores((ids(2, 3), ids(2, 3)))
    with pytest.raises(ValueError, match="source_token_ids"):
        model.attention_parts({"target_token_ids": ids(1, 1)})


@pytest.mark.parametrize("search", [ra.beam_search, ra.sample])
@pytest.mark.parametrize(
    "source, received",
    [
        ([5, 6, 1], "int64 of shape (3,)"),
        (np.array([[5.5, 1.0]]), "float64 of shape (1, 2)"),
        ([[5, -6, 1]], "-6 to 5"),
        ([[5, 23, 1]], "1 to 23"),
    ],
    ids=["one_axis", "float", "negative", "large"],
)
def test_search_names_source_ids_that_are_wrong(
    shared_model, search, source, received
):
    with pytest.raises(ValueError) as error:
        search(shared_model(), source)
    assert str(error.value).startswith("`source_token_ids` must ")
    assert str(error.value).endswith(f"Received: {received}.")


def test_search_holds_source_ids_against_the_source_vocabulary(build_model):
    model = build_model(source_vocabulary_size=29, share_embeddings="target")
    ra.beam_search(model, [[28, 1]], max_length=1)
    with pytest.raises(ValueError, match="ids from 0 to 28"):
        ra.beam_search(model, [[29, 1]])


@pytest.mark.parametrize("config", [1000, None, {"vocabulary_size": 9}])
def test_what_is_no_config_is_refused_with_the_way_out(config):
    with pytest.raises(TypeError) as error:
        Transformer(config)
    assert str(error.value) == (
        f"`config` must be a TransformerConfig. Received: config={config!r}. "
        "For a preset, call `Transformer.from_preset(name, "
        "vocabulary_size=...)`."
    )


# === Attention ===


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


PARTS = {
    "relative": {},
    "pre-norm, a table per head": {
        "normalize_first": True,
        "share_relations_across_heads": False,
    },
    "relative, K = 0": {"max_relative_position": 0},
    **{name: {"position_encoding": name} for name in POSITION_ENCODINGS},
}


@pytest.mark.parametrize("name", PARTS, ids=str)
def test_parts_of_attention_have_its_scores(shared_model, batch, name):
    inputs, _ = batch
    model = shared_model(**PARTS[name])
    parts = model.attention_parts(inputs)
    expected = model.attention_scores(inputs)
    names = POSITION_ENCODINGS[model.config.position_encoding]
    adds = names.attention_class().logits is not PositionEncoding.logits
    assert parts.keys() == expected.keys()
    for kind, blocks in parts.items():
        assert len(blocks) == len(expected[kind]) == 1
        for block, scores in zip(blocks, expected[kind]):
            np.testing.assert_allclose(block.scores, scores, atol=1e-5)
            has_position = np.asarray(block.position_logits).any()
            is_self = kind != "cross"
            assert has_position == (is_self and adds)
            encoding = model.config.position_encoding or ""
            has_rows = is_self and "relative" in encoding.split("+")
            assert (block.distance_logits is not None) == has_rows


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
def test_inputs_are_labels_behind_the_start(convert, labels, inputs):
    labels = convert(np.array(labels, np.int32))
    found = decoder_inputs(labels, start_token_id=5)
    assert isinstance(found, type(labels))
    assert keras.backend.standardize_dtype(found.dtype) == "int32"
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(found), inputs)
