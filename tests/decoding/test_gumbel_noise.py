"""Noise that is a function of what it is for, and draws that depend on it."""

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.decoding.gumbel_noise import gumbel_noise
from relative_attention.decoding.gumbel_noise import noise_keys

VOCABULARY_SIZE = 8000


@pytest.fixture(scope="module")
def model():
    model = ra.Transformer.from_preset(
        "transformer_tiny_relative",
        vocabulary_size=VOCABULARY_SIZE,
        num_encoder_layers=1,
        num_decoder_layers=1,
        hidden_dim=16,
        intermediate_dim=16,
        num_heads=2,
    )
    rng = np.random.default_rng(4)
    for weight in model.trainable_weights:
        if "embeddings" in weight.path:
            weight.assign(rng.normal(0, 0.25, weight.shape))
    return model


@pytest.mark.large
@pytest.mark.parametrize(
    "arguments",
    [{"top_p": 0.9}, {}, {"top_k": 500}],
    ids=str,
)
def test_draws_of_many_pieces_depend_on_the_sentence_alone(model, arguments):
    rng = np.random.default_rng(5)
    rows = rng.integers(2, VOCABULARY_SIZE, (24, 6))
    rows[:, -1] = 1

    def draw(rows):
        results = ra.sample(
            model,
            rows,
            num_results=10,
            seed=1,
            max_length=12,
            min_length=12,
            **arguments,
        )
        return np.asarray(results["token_ids"])

    together = draw(rows)
    padded = np.pad(rows, ((0, 0), (0, 3)))
    apart = np.concatenate([draw(rows[:1]), draw(padded[1:8]), draw(rows[8:])])
    np.testing.assert_array_equal(apart, together)
    # Draws that differ, or nothing could be told.
    assert len(np.unique(together.reshape(-1, 12), axis=0)) > 230


def test_noise_is_gumbels_and_of_no_two_things_the_same():
    keys = noise_keys(np.array([[5, 1], [6, 1]]), 2, seed=3)
    noise = np.stack(
        [
            np.asarray(gumbel_noise(keys, position, 20_000))
            for position in (0, 1)
        ]
    )
    assert noise.shape == (2, 2, 2, 20_000)
    flat = noise.reshape(8, -1).astype(np.float64)
    correlations = np.corrcoef(
        np.concatenate([flat[:, 1:], flat[:, :-1]])
    ) - np.eye(16)
    # By chance 0.007 each, and of some hundred none is five times that.
    assert np.abs(correlations).max() < 5 / np.sqrt(20_000)
    for row in flat:
        # Of exp(-exp(-noise)), which is uniform, by Kolmogorov and Smirnov.
        uniform = np.sort(np.exp(-np.exp(-row)))
        expected = (np.arange(len(row)) + 0.5) / len(row)
        assert np.abs(uniform - expected).max() < 2.2 / np.sqrt(len(row))


def test_keys_are_of_seed_sentence_and_number():
    keys = np.asarray(noise_keys(np.array([[5, 1, 0], [6, 1, 0]]), 2, seed=3))
    other = np.asarray(noise_keys(np.array([[6, 1]]), 3, seed=3))
    np.testing.assert_array_equal(keys[1], other[0, :2])
    assert len({*map(tuple, keys.reshape(-1, 2).tolist())}) == 4
    assert (np.asarray(noise_keys(np.array([[6, 1]]), 3, 4)) != other).any()
