import keras
import numpy as np
import pytest

from relative_attention.models import Transformer
from relative_attention.training import MaskedCrossEntropy

V, D, F, N, K = 23, 12, 17, 3, 2
ENCODINGS = pytest.mark.parametrize(
    "position_encoding",
    ["relative", "sinusoidal", "learned", "relative+sinusoidal", None],
    ids=str,
)
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


# === What the logits depend on ===


@ENCODINGS
@NORMS
def test_logits_have_a_row_for_each_target_token(
    build_model, batch, position_encoding, normalize_first
):
    inputs, _ = batch
    model = build_model(
        position_encoding=position_encoding, normalize_first=normalize_first
    )
    logits = np.array(model(inputs))
    assert logits.shape == (2, 5, V)
    assert np.isfinite(logits).all()
    # No two rows alike: everything before reaches them.
    assert len(np.unique(logits.reshape(10, V).round(4), axis=0)) == 10


@ENCODINGS
def test_left_padding_of_the_source_changes_only_absolute_positions(
    build_model, batch, position_encoding
):
    inputs, _ = batch
    model = build_model(position_encoding=position_encoding)
    shifted = np.pad(inputs["source_token_ids"], ((0, 0), (3, 0)))
    difference = np.abs(
        np.array(model(with_source(inputs, shifted))) - np.array(model(inputs))
    ).max()
    if position_encoding in ("relative", None):
        assert difference < 1e-5
    else:
        assert difference > 1e-3


def test_order_of_the_source_matters_only_with_positions(build_model, batch):
    inputs, _ = batch
    reversed_source = inputs["source_token_ids"][:, ::-1]
    differences = {
        encoding: np.abs(
            np.array(model(with_source(inputs, reversed_source)))
            - np.array(model(inputs))
        ).max()
        for encoding in (None, "relative", "sinusoidal", "learned")
        for model in [build_model(position_encoding=encoding)]
    }
    assert differences.pop(None) < 1e-5
    assert min(differences.values()) > 1e-3


@ENCODINGS
def test_right_padding_of_the_source_changes_nothing(
    build_model, batch, position_encoding
):
    inputs, _ = batch
    model = build_model(position_encoding=position_encoding)
    padded = np.pad(inputs["source_token_ids"], ((0, 0), (0, 4)))
    assert_same(model(with_source(inputs, padded)), model(inputs))


@ENCODINGS
def test_later_target_tokens_change_no_earlier_logits(
    build_model, batch, position_encoding
):
    inputs, _ = batch
    model = build_model(position_encoding=position_encoding)
    expected = np.array(model(inputs))
    for position in range(1, 5):
        target = inputs["target_token_ids"].copy()
        target[:, position:] = target[:, position:] % (V - 3) + 2
        logits = np.array(model({**inputs, "target_token_ids": target}))
        assert_same(logits[:, :position], expected[:, :position])
        assert np.abs(logits[:, position] - expected[:, position]).max() > 1e-3


def test_clipping_distance_bounds_what_is_told_apart(build_model, batch):
    """With no limit in reach, tables of another size change nothing."""
    inputs, _ = batch
    model = build_model(max_relative_position=7)
    wider = build_model(max_relative_position=9)
    for weight, other in zip(
        model.trainable_weights, wider.trainable_weights, strict=True
    ):
        values = np.array(weight)
        if weight.path.endswith("relation_embeddings"):
            other.assign(np.pad(values, ((2, 2), (0, 0)), "reflect"))
        else:
            other.assign(values)
    np.testing.assert_array_equal(wider(inputs), model(inputs))


# === A position at a time ===


@ENCODINGS
@NORMS
def test_decode_steps_are_the_full_pass(
    build_model, batch, position_encoding, normalize_first
):
    inputs, _ = batch
    model = build_model(
        position_encoding=position_encoding,
        normalize_first=normalize_first,
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


@ENCODINGS
def test_each_beam_decodes_as_if_alone(
    rng, build_model, batch, position_encoding
):
    inputs, _ = batch
    source = inputs["source_token_ids"]
    model = build_model(position_encoding=position_encoding)
    targets = rng.integers(2, V, size=(2, 3, 5))
    targets[:, :, 0] = 0
    expected = np.stack(
        [
            model({"source_token_ids": source, "target_token_ids": beam})
            for beam in targets.swapaxes(0, 1)
        ],
        axis=1,
    )
    cache = model.start_cache(source)
    np.testing.assert_array_equal(cache["source_padding_mask"], source != 0)
    for position in range(5):
        logits, cache = model.decode_step(
            targets[:, :, position], cache, position
        )
        assert_same(logits, expected[:, :, position])
        if position == 2:
            cache = model.merge_cache(cache)


def test_attention_scores_are_distributions_over_what_may_be_seen(
    build_model, batch
):
    inputs, _ = batch
    scores = build_model().attention_scores(inputs)
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
def test_embeddings_are_shared_as_told(build_model, batch, share):
    inputs, _ = batch
    sizes = {} if share == "all" else {"source_vocabulary_size": 31}
    model = build_model(share_embeddings=share, **sizes)
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


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"normalize_first": True},
        {"share_relations_across_heads": False},
        {"use_key_relations": False},
        {"use_value_relations": False},
        {"position_encoding": "sinusoidal"},
        {"position_encoding": "relative+sinusoidal"},
        {"position_encoding": "learned"},
        {"position_encoding": None},
        {"key_dim": 5},
        {"share_embeddings": "target", "source_vocabulary_size": 31},
        {"share_embeddings": "none"},
        {"num_encoder_layers": 1, "num_decoder_layers": 3},
    ],
    ids=str,
)
def test_number_of_parameters_is_the_formula(build_model, fields):
    model = build_model(**fields)
    head_dim = fields.get("key_dim", D // N)
    tables = 0
    if "relative" in (fields.get("position_encoding", "relative") or ""):
        tables = sum(
            fields.get(f"use_{kind}_relations", True)
            for kind in ("key", "value")
        )
        if not fields.get("share_relations_across_heads", True):
            tables *= N
    attention = 4 * D * N * head_dim
    relations = tables * (2 * K + 1) * head_dim
    feed_forward = D * F + F + F * D + D
    norm = 2 * D
    encoder_block = attention + relations + feed_forward + 2 * norm
    decoder_block = 2 * attention + relations + feed_forward + 3 * norm
    rows = V
    if fields.get("share_embeddings", "all") != "all":
        rows += fields.get("source_vocabulary_size", V)
    if fields.get("share_embeddings") == "none":
        rows += V
    expected = (
        rows * D
        + fields.get("num_encoder_layers", 2) * encoder_block
        + fields.get("num_decoder_layers", 1) * decoder_block
    )
    if fields.get("normalize_first"):
        expected += 2 * norm
    if fields.get("position_encoding") == "learned":
        expected += 2 * 19 * D
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


def test_model_without_dropout_is_the_same_in_training(build_model, batch):
    inputs, _ = batch
    model = build_model()
    np.testing.assert_array_equal(model(inputs, training=True), model(inputs))


# === Saving ===


@pytest.mark.parametrize(
    "fields",
    [
        {"share_relations_across_heads": False, "normalize_first": True},
        {"position_encoding": "learned", "share_embeddings": "target"},
        {"position_encoding": None, "source_vocabulary_size": 31}
        | {"share_embeddings": "none"},
    ],
    ids=["relative", "learned", "none"],
)
def test_model_survives_its_config_and_a_file(
    tmp_path, build_model, batch, fields
):
    inputs, _ = batch
    model = build_model(**fields)
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
    other = Transformer(model.config)
    other.load_weights(path)
    np.testing.assert_array_equal(other(inputs), expected)


def test_compiled_model_goes_on_from_its_file(tmp_path, build_model, batch):
    inputs, labels = batch
    model = build_model()
    model.compile(
        keras.optimizers.Adam(1e-2), MaskedCrossEntropy(), run_eagerly=True
    )
    model.fit(inputs, labels, shuffle=False, verbose=0)
    path = tmp_path / "model.keras"
    model.save(path)
    loaded = keras.saving.load_model(path)
    assert loaded.loss.label_smoothing == 0.1
    loaded.run_eagerly = True
    for either in (model, loaded):
        either.fit(inputs, labels, shuffle=False, verbose=0)
    for weight, other in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(weight, other)


# === Half precision ===


@pytest.mark.parametrize(
    "dtype, tolerance",
    # bfloat16 rounds to 0.4 %, and three blocks add their roundings up.
    [("float16", 1e-2), ("bfloat16", 5e-2)],
)
def test_half_precision_is_near_single(build_model, batch, dtype, tolerance):
    inputs, labels = batch
    model = build_model()
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
    history = half.fit(inputs, labels, verbose=0).history
    assert np.isfinite(history["loss"]).all()
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


@ENCODINGS
@NORMS
def test_fit_step_changes_every_weight(
    build_model, batch, position_encoding, normalize_first
):
    inputs, labels = batch
    model = build_model(
        position_encoding=position_encoding,
        normalize_first=normalize_first,
        share_embeddings="none",
    )
    model.compile(
        keras.optimizers.SGD(1.0), MaskedCrossEntropy(), run_eagerly=True
    )
    before = model.get_weights()
    model.train_on_batch(inputs, labels)
    for old, weight in zip(before, model.weights, strict=True):
        assert (old != np.array(weight)).any(), weight.path


@pytest.mark.large
def test_fit_learns_a_batch(build_model, batch):
    inputs, labels = batch
    model = build_model(
        num_encoder_layers=1, dropout=0.1, attention_dropout=0.1
    )
    model.compile(
        keras.optimizers.Adam(1e-2), MaskedCrossEntropy(0.0), jit_compile=False
    )
    losses = model.fit(inputs, labels, epochs=30, verbose=0).history["loss"]
    assert losses[-1] < losses[0] / 2


def test_loss_shown_is_the_mean_over_tokens(rng, build_model):
    # Batches of two sentences, with 3, then 11 tokens to predict.
    lengths = np.array([1, 2, 6, 5])
    source = rng.integers(2, V, size=(4, 7)).astype("int32")
    source[0, 3:] = 0
    labels = rng.integers(2, V, size=(4, 6)).astype("int32")
    labels[np.arange(6) >= lengths[:, None]] = 0
    target = np.pad(labels[:, :-1], ((0, 0), (1, 0)))
    inputs = {"source_token_ids": source, "target_token_ids": target}
    model = build_model(num_encoder_layers=1)
    model.compile(
        keras.optimizers.SGD(0.0), MaskedCrossEntropy(), jit_compile=False
    )
    history = model.fit(
        inputs,
        labels,
        batch_size=2,
        shuffle=False,
        epochs=2,
        validation_data=(inputs, labels),
        validation_batch_size=2,
        verbose=0,
    ).history
    logits = np.array(model(inputs))
    loss = MaskedCrossEntropy()
    first, second = (
        float(loss(labels[part], logits[part]))
        for part in (slice(2), slice(2, 4))
    )
    expected = (3 * first + 11 * second) / 14
    # Far from the mean over batches.
    assert abs(expected - (first + second) / 2) > 1e-3
    np.testing.assert_allclose(history["loss"], expected, rtol=1e-5)
    np.testing.assert_allclose(history["val_loss"], expected, rtol=1e-5)
    num_tokens = (source != 0).sum() + 14
    assert history["tokens"] == [num_tokens] * 2
    assert history["val_tokens"] == [num_tokens] * 2
    result = model.evaluate(
        inputs, labels, batch_size=2, return_dict=True, verbose=0
    )
    np.testing.assert_allclose(result["loss"], expected, rtol=1e-5)


def test_metrics_are_shown_beside_the_loss(build_model, batch):
    inputs, labels = batch
    model = build_model()
    model.compile(
        keras.optimizers.SGD(0.0),
        MaskedCrossEntropy(0.0),
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        run_eagerly=True,
    )
    history = model.fit(inputs, labels, verbose=0).history
    assert {"loss", "tokens", "accuracy"} <= set(history)
    accuracy = (np.array(model(inputs)).argmax(-1) == labels).mean()
    np.testing.assert_allclose(history["accuracy"], [accuracy], rtol=1e-6)


def test_loss_that_is_not_finite_is_shown_by_validation(build_model, batch):
    model = build_model()
    model.compile(
        keras.optimizers.SGD(0.0), MaskedCrossEntropy(0.0), run_eagerly=True
    )
    model.output_embedding.embeddings.assign(
        np.full(model.output_embedding.embeddings.shape, np.nan)
    )
    assert np.isnan(model.evaluate(*batch, verbose=0, return_dict=True)["loss"])


@COMPILED
@pytest.mark.large
def test_compiled_step_is_the_uncompiled_one(build_model, batch):
    inputs, labels = batch
    model = build_model(num_encoder_layers=1)
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
        num_encoder_layers=1,
        dropout=0.2,
        attention_dropout=0.2,
        intermediate_dropout=0.2,
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
            keras.optimizers.Adam(1e-2),
            MaskedCrossEntropy(),
            run_eagerly=True,
        )
        history = model.fit(inputs, labels, epochs=3, verbose=0).history
        return initial, history, model.get_weights()

    first, second = train(), train()
    assert first[1] == second[1]
    for part in (0, 2):
        for weight, other in zip(first[part], second[part], strict=True):
            np.testing.assert_array_equal(weight, other)
