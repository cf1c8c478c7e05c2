"""What every encoding owes to a self-attention layer, by its name."""

import keras
import numpy as np
import pytest
from keras import ops

import relative_attention as ra
from relative_attention.layers.positions import POSITION_ENCODINGS
from relative_attention.ops import step_attention
from tests.layers.paper import assert_same
from tests.layers.paper import normal

B, T, D, N, H, H_V, M = 2, 7, 11, 3, 4, 5, 3

NAMES = [
    name
    for name, names in POSITION_ENCODINGS.items()
    if names.on_embeddings is None
]
ENCODINGS = pytest.mark.parametrize("encoding", NAMES, ids=str)
TABLES = {
    "apart": (2, {"share_relations_across_heads": False}),
    "keys": (2, {"use_value_relations": False}),
    "values": (2, {"use_key_relations": False}),
    "clipped at 0": (0, {}),
    "not clipped": (T + 3, {}),
}


@pytest.fixture
def build_layer(randomize):
    def build(encoding, **arguments):
        layer = ra.SelfAttention(N, H, encoding, value_dim=H_V, **arguments)
        return randomize(layer, D)

    return build


@ENCODINGS
def test_keras_file_gives_the_same_numbers(
    rng, build_layer, encoding, tmp_path
):
    layer = build_layer(encoding, bidirectional=False)
    symbol = keras.Input((None, D))
    # As a list, which Keras 3.10 makes of a single input in a file.
    model = keras.Model([symbol], layer(symbol, use_causal_mask=True))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    inputs = [normal(rng, B, T, D)]
    np.testing.assert_array_equal(loaded(inputs), model(inputs))


@pytest.mark.parametrize(
    "encoding, own",
    [*((name, True) for name in (*NAMES, *TABLES)), ("relative", False)],
)
def test_steps_of_beams_are_causal_passes_over_their_histories(
    monkeypatch, rng, build_layer, encoding, own
):
    """With the kernels that this machine takes, and with those of Keras."""
    if not own:
        monkeypatch.setattr(step_attention, "has_own_kernels", lambda: own)
    if encoding in TABLES:
        limit, options = TABLES[encoding]
        encoding = ra.positions.Relative(limit, **options)
    layer = build_layer(encoding, bidirectional=False)
    # What each beam of each sentence writes at each position, and which beam
    # of the position before it continues.
    inputs = normal(rng, B, M, T, D)
    parents = rng.integers(0, M, size=(B, M, T))
    beams = np.broadcast_to(np.arange(M)[:, None], (B, M, 1))
    ancestors = np.zeros((B, M, 0), int)
    cache = layer.start_cache(B)
    for position in range(T):
        rows = parents[:, :, position, None]
        ancestors = np.take_along_axis(ancestors, rows, axis=1)
        ancestors = np.concatenate([ancestors, beams], axis=2)
        outputs, cache = layer.decode_step(
            inputs[:, :, position], cache, position, ancestors.astype("int32")
        )
        # What comes after a position makes no difference to it.
        histories = inputs.copy()
        histories[:, :, : position + 1] = np.take_along_axis(
            inputs[:, :, : position + 1], ancestors[..., None], axis=1
        )
        expected = layer(histories.reshape(B * M, T, D), use_causal_mask=True)
        assert_same(outputs, np.array(expected)[:, position].reshape(B, M, D))
        if position % 3 == 2:
            # When it is merged makes no difference.
            cache = cache.merged()
            assert cache.key.shape == (B, N, M * (position + 1), H)
            assert cache.recent_value.shape == (B, N, 0, H_V)


@pytest.mark.parametrize(
    "base", [ra.positions.Relative, ra.positions.RelativeGlobal]
)
@pytest.mark.parametrize("term", ["logits", "context"])
def test_own_terms_of_a_subclass_count_on_every_path(
    rng, build_layer, base, term
):
    def changed(self, layer, x, queries, keys):
        found = getattr(base, term)(self, layer, x, queries, keys)
        return None if found is None else -3.0 * found

    encoding = type("Own", (base,), {term: changed})(
        2, use_value_relations=True
    )
    layer = build_layer(encoding, bidirectional=False)
    inputs = normal(rng, B, T, D)
    expected, _ = layer(
        inputs, use_causal_mask=True, return_attention_scores=True
    )
    plain = base(2, use_value_relations=True)
    layer.position_encoding = plain
    assert np.abs(layer(inputs, use_causal_mask=True) - expected).max() > 0.01
    layer.position_encoding = encoding
    for implementation in ("auto", "recompute", "transpose"):
        layer.implementation = implementation
        assert_same(layer(inputs, use_causal_mask=True), expected)
    cache = layer.start_cache(B)
    for position in range(T):
        outputs, cache = layer.decode_step(
            inputs[:, None, position], cache, position
        )
        assert_same(outputs[:, 0], np.array(expected)[:, position])


@ENCODINGS
@pytest.mark.parametrize(
    "dtype, bound", [("float16", 0.004), ("bfloat16", 0.03)]
)
def test_half_precision_is_near_float32(
    rng, build_layer, encoding, dtype, bound
):
    def rounded(array):
        return np.array(ops.cast(ops.cast(array, dtype), "float32"))

    exact = build_layer(encoding)
    exact.set_weights([rounded(weight) for weight in exact.get_weights()])
    half = build_layer(encoding, dtype=f"mixed_{dtype}")
    half.set_weights(exact.get_weights())
    # Beyond 256, bfloat16 has no odd numbers.
    inputs = rounded(rng.normal(size=(1, 600, D)))
    expected = np.array(exact(inputs))
    result = np.array(ops.cast(half(inputs), "float32"))
    error = np.linalg.norm(result - expected) / np.linalg.norm(expected)
    assert 0 < error < bound
