"""Beam search: probabilities known by hand, and a wide beam as brute force."""

import itertools
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

import relative_attention as ra
from relative_attention.decoding.beam_steps import length_penalty_of
from relative_attention.decoding.beam_steps import top_k
from tests.decoding.known_models import Chain
from tests.decoding.known_models import padded
from tests.decoding.known_models import penalty

# The test of what is the same as a graph asks for `as_graph`.
pytestmark = pytest.mark.usefixtures("eagerly")

SOURCE = np.array([[7, 8, 9, 1]])
ENDLESS = {0: {2: 0.7, 3: 0.3}, 2: {2: 0.9, 3: 0.1}, 3: {3: 1.0}}
# The same token for ever.
TWOS = {0: {2: 1.0}, 2: {2: 1.0}}


def search(model, rows, **arguments):
    """Ids `(B, num_results, T)` and scores as numpy arrays."""
    results = ra.beam_search(model, rows, **arguments)
    assert set(results) == {"token_ids", "scores"}
    return np.asarray(results["token_ids"]), np.asarray(results["scores"])


def assert_results_are(token_ids, scores, hypotheses):
    """One sentence's results are these `(score, ids)`."""
    assert len(token_ids) == len(hypotheses)
    for row, score, (wanted_score, wanted_ids) in zip(
        token_ids, scores, hypotheses
    ):
        padding = [0] * (len(row) - len(wanted_ids))
        assert row.tolist() == [*wanted_ids, *padding]
        assert abs(score - wanted_score) < 1e-4


# === Scores ===


def test_penalty_is_that_of_the_paper():
    # (5 + |Y|)^alpha / (5 + 1)^alpha: of 1 token 1, of 7 tokens 2^alpha.
    lengths = np.array([1, 7, 19], np.int32)
    np.testing.assert_allclose(length_penalty_of(lengths, 1.0), [1, 2, 4])
    np.testing.assert_array_equal(length_penalty_of(lengths, 0.0), [1, 1, 1])


@pytest.mark.parametrize("alpha", [0.0, 1.5])
def test_wide_beam_is_brute_force(rng, alpha):
    # Of 5 tokens 4 go on, in 3 steps: no more than 16 beams.
    table = rng.dirichlet(np.full(5, 0.5), 5)
    model = Chain(
        {last: dict(enumerate(row)) for last, row in enumerate(table)}, 5
    )
    everything = []
    for length in (1, 2, 3):
        for start in itertools.product([0, 2, 3, 4], repeat=length - 1):
            ids = [*start, 1]
            total = np.log(table[[0, *start], ids]).sum()
            everything.append((total / penalty(length, alpha), ids))
    assert len(everything) == 1 + 4 + 16
    (token_ids,), (scores,) = search(
        model,
        [[3, 1]],
        num_beams=16,
        num_results=6,
        length_penalty=alpha,
        max_extra_length=1,
    )
    best = sorted(everything, reverse=True)[:6]
    assert len({len(ids) for _, ids in best}) > 1
    assert_results_are(token_ids, scores, best)


def test_search_ends_when_nothing_can_overtake():
    # After the second step the rest of the way is worth 1e-12.
    model = Chain({0: {2: 0.9, 3: 0.1}, 2: {1: 1.0}, 3: {3: 1e-3, 1: 1e-3}})
    search(model, SOURCE, num_beams=2, max_extra_length=50)
    assert len(model.sources) < 6


@pytest.mark.parametrize("num_beams", [1, 3])
def test_beams_are_given_when_none_ends(num_beams):
    token_ids, scores = search(
        Chain(ENDLESS),
        padded([[7, 1], [7, 8, 9, 1], [1]]),
        num_beams=num_beams,
        max_extra_length=3,
    )
    for (row,), (score,), length in zip(token_ids, scores, (2, 4, 1)):
        limit = length + 3
        # Not divided by any penalty.
        wanted = math.log(0.7) + (limit - 1) * math.log(0.9)
        assert_results_are([row], [score], [(wanted, [2] * limit)])


@pytest.mark.parametrize(
    "max_extra_length, max_length, lengths",
    [
        pytest.param(3, None, [7, 4], id="extra"),
        pytest.param(3, 5, [5, 4], id="both"),
        pytest.param(3, 0, [0, 0], id="none"),
        pytest.param(-2, None, [2, 0], id="shorter_than_the_source"),
    ],
)
def test_endless_translation_has_its_longest_length(
    max_extra_length, max_length, lengths
):
    token_ids, _ = search(
        Chain(TWOS),
        padded([[7, 7, 7, 1], [1]]),
        num_beams=2,
        max_extra_length=max_extra_length,
        max_length=max_length,
    )
    found = np.count_nonzero(token_ids[:, 0], axis=-1)
    np.testing.assert_array_equal(found, lengths)


# === Results ===


@pytest.mark.parametrize("vocabulary_size", [3, 17])
def test_row_ends_once_or_is_empty_when_results_are_missing(vocabulary_size):
    # Fewer hypotheses can end within the limit than results are asked for.
    model = Chain(
        {0: {2: 0.4, 1: 0.6}, 1: {1: 1.0}, 2: {1: 1.0}}, vocabulary_size
    )
    (token_ids,), (scores,) = search(
        model, [[2, 1]], num_beams=8, num_results=8, max_extra_length=0
    )
    assert_results_are(token_ids[:1], scores[:1], [(math.log(0.6), [1])])
    for row in token_ids.tolist():
        assert row.count(1) == any(row)
        assert not any(row[row.index(1) + 1 :] if any(row) else row)


@pytest.mark.parametrize(
    "convert",
    [np.ndarray.tolist, np.uint16, lambda rows: tf.constant(rows, tf.int64)],
    ids=["lists", "uint16", "tensor"],
)
def test_source_may_be_of_any_int_type(convert):
    model = Chain(ENDLESS)
    token_ids, _ = search(model, convert(SOURCE), max_extra_length=0)
    assert token_ids.tolist() == [[[2, 2, 2, 2]]]
    assert model.sources[0] == SOURCE.tolist()


@pytest.mark.parametrize("num_beams", [1, 3])
def test_search_drops_finished_sentences(num_beams):
    # They go on to their limit, and those in the middle are done first.
    lengths = (8, 2, 4, 4, 6, 8, 8, 8, 8)
    sources = padded([[7] * (length - 1) + [1] for length in lengths])
    model = Chain(TWOS)
    token_ids, _ = search(
        model, sources, num_beams=num_beams, max_extra_length=0
    )
    found = np.count_nonzero(token_ids[:, 0], axis=-1)
    np.testing.assert_array_equal(found, lengths)
    # One in nine is not worth a copy of the others.
    assert [len(rows) for rows in model.sources] == [9, 9, 9, 9, 6, 6, 5, 5]
    assert model.sources[4] == sources[[0, 4, 5, 6, 7, 8]].tolist()
    assert model.sources[6] == sources[[0, 5, 6, 7, 8]].tolist()


def test_sampling_drops_finished_sentences():
    sources = padded([[7] * length + [1] for length in (5, 1, 1)])
    model = Chain(TWOS)
    found = ra.sample(model, sources, num_results=3, max_extra_length=0)
    lengths = np.count_nonzero(found["token_ids"][:, 0], axis=-1)
    assert lengths.tolist() == [6, 2, 2]
    assert [len(rows) for rows in model.sources] == [3, 3, 1, 1, 1, 1]
    assert model.sources[2] == sources[:1].tolist()


# === The largest logits ===


# Primes have no divisor near their root; squares and round numbers have.
@pytest.mark.parametrize(
    "size, k", [(1, 1), (13, 8), (64, 8), (101, 17), (8192, 100)]
)
def test_top_k_matches_keras(rng, size, k):
    values = rng.permutation(2 * 3 * size).reshape(2, 3, size)
    values = values.astype(np.float32) - 2 * size
    found, indices = top_k(keras.ops.convert_to_tensor(values), k)
    wanted, wanted_indices = keras.ops.top_k(values, k)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(indices, wanted_indices)
    assert keras.backend.standardize_dtype(indices.dtype) == "int32"


def test_what_is_impossible_comes_before_padding():
    # All but one are as a search forbids them; the rest of a chunk is none.
    values = np.full((1, 1, 103), -1e7, np.float32)
    values[..., 50] = -3.0
    found, indices = top_k(keras.ops.convert_to_tensor(values), 103)
    indices = np.asarray(indices)[0, 0].tolist()
    assert indices[0] == 50 and sorted(indices) == list(range(103))
    assert np.min(found) == np.float32(-1e7)
