"""What a Transformer knows of places, with each of the position encodings."""

import keras
import numpy as np
import pytest

from relative_attention.layers.cache import merged_cache
from relative_attention.layers.positions import POSITION_ENCODINGS

V = 23
ENCODINGS = pytest.mark.parametrize(
    "position_encoding", POSITION_ENCODINGS, ids=str
)


def assert_same(result, expected):
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def as_float32(tensor):
    return np.array(keras.ops.cast(tensor, "float32"))


@pytest.fixture
def model(shared_model, position_encoding):
    return shared_model(position_encoding=position_encoding)


# === What the logits depend on ===


@ENCODINGS
def test_logits_depend_on_source_positions(model, batch, position_encoding):
    inputs, _ = batch
    source = inputs["source_token_ids"]

    def matters(changed):
        """Whether logits change; it is never by little."""
        logits = [
            np.array(model({**inputs, "source_token_ids": ids}))
            for ids in (source, changed)
        ]
        difference = np.abs(logits[1] - logits[0]).max()
        assert not 1e-5 < difference < 1e-3
        return difference > 1e-4

    # Not the reverse: it is the same to a bias that is the same on both sides.
    swapped = source[:, [1, 0, *range(2, 7)]]
    assert matters(swapped) == (position_encoding is not None)
    names = POSITION_ENCODINGS[position_encoding]
    padded_left = np.pad(source, ((0, 0), (3, 0)))
    assert matters(padded_left) == (names.on_embeddings is not None)
    assert not matters(np.pad(source, ((0, 0), (0, 4))))


@pytest.mark.parametrize("encoding", ["sinusoidal", "learned"])
def test_first_position_numbers_the_first_token(shared_model, batch, encoding):
    inputs, _ = batch
    model = shared_model(position_encoding=encoding, first_position=3)
    plain = shared_model(position_encoding=encoding)
    assert np.abs(np.array(model(inputs)) - np.array(plain(inputs))).max() > 0.1
    # Three padding tokens before the source move every token as far.
    source = inputs["source_token_ids"]
    moved = np.concatenate([np.zeros((2, 3), "int32"), source], axis=1)
    encoded = np.array(plain.encode(moved))[:, 3:]
    assert_same(model.encode(source), encoded)


# === A position at a time ===

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


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(FIELDS, id="all_fields"),
        # Those inside attention are compared layer by layer.
        {"position_encoding": "learned"},
        {"position_encoding": None},
        {"position_encoding": "relative", "dtype": "mixed_bfloat16"},
    ],
    ids=lambda fields: str(fields.get("dtype", fields["position_encoding"])),
)
def test_decode_steps_are_the_full_pass_for_every_beam(
    rng, shared_model, batch, fields
):
    model = shared_model(**fields)
    source = batch[0]["source_token_ids"]
    targets = rng.integers(2, V, size=(2, 3, 5))
    expected = np.stack(
        [
            as_float32(
                model({"source_token_ids": source, "target_token_ids": beam})
            )
            for beam in targets.swapaxes(0, 1)
        ],
        axis=1,
    )
    # bfloat16 rounds to 0.4 %, and three blocks add their roundings up.
    bound = 1e-5
    if "dtype" in fields:
        bound = 0.05 * np.abs(expected).max()
    cache = model.start_cache(source)
    np.testing.assert_array_equal(cache["source_padding_mask"], source != 0)
    for position in range(5):
        logits, cache = model.decode_step(
            targets[:, :, position], cache, position
        )
        assert logits.shape == (2, 3, V)
        np.testing.assert_allclose(
            as_float32(logits), expected[:, :, position], rtol=1e-5, atol=bound
        )
        if position == 2:
            cache = merged_cache(cache)
