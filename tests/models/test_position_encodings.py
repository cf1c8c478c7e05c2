"""What a Transformer knows of places, with each of the position encodings."""

import numpy as np
import pytest

from relative_attention.positions import POSITION_ENCODINGS

V = 23
ENCODINGS = pytest.mark.parametrize(
    "position_encoding", POSITION_ENCODINGS, ids=str
)


def assert_same(result, expected):
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def with_source(inputs, source):
    return {**inputs, "source_token_ids": source}


@pytest.fixture
def model(shared_model, position_encoding):
    return shared_model(position_encoding=position_encoding)


# === What the logits depend on ===


@ENCODINGS
def test_order_of_the_source_matters_only_with_positions(
    model, batch, position_encoding
):
    inputs, _ = batch
    # Not the reverse: it is the same to a bias that is the same on both sides.
    swapped = inputs["source_token_ids"][:, [1, 0, *range(2, 7)]]
    difference = np.abs(
        np.array(model(with_source(inputs, swapped))) - np.array(model(inputs))
    ).max()
    if position_encoding is None:
        assert difference < 1e-5
    else:
        assert difference > 1e-3


@ENCODINGS
def test_left_padding_of_the_source_changes_only_absolute_positions(
    model, batch, position_encoding
):
    inputs, _ = batch
    shifted = np.pad(inputs["source_token_ids"], ((0, 0), (3, 0)))
    difference = np.abs(
        np.array(model(with_source(inputs, shifted))) - np.array(model(inputs))
    ).max()
    if POSITION_ENCODINGS[position_encoding].on_embeddings is None:
        assert difference < 1e-5
    else:
        assert difference > 1e-3


@ENCODINGS
def test_right_padding_of_the_source_changes_nothing(model, batch):
    inputs, _ = batch
    padded = np.pad(inputs["source_token_ids"], ((0, 0), (0, 4)))
    assert_same(model(with_source(inputs, padded)), model(inputs))


@ENCODINGS
def test_later_target_tokens_change_no_earlier_logits(model, batch):
    inputs, _ = batch
    expected = np.array(model(inputs))
    for position in (1, 4):
        target = inputs["target_token_ids"].copy()
        target[:, position:] = target[:, position:] % (V - 3) + 2
        logits = np.array(model({**inputs, "target_token_ids": target}))
        assert_same(logits[:, :position], expected[:, :position])
        assert np.abs(logits[:, position] - expected[:, position]).max() > 1e-3


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


@ENCODINGS
def test_decode_steps_are_the_full_pass_for_every_beam(rng, model, batch):
    source = batch[0]["source_token_ids"]
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
        assert logits.shape == (2, 3, V)
        assert_same(logits, expected[:, :, position])
        if position == 2:
            cache = model.merge_cache(cache)
