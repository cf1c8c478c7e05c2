"""Batches of few shapes."""

import itertools

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.data.fixed_shape_batches import choose_lengths
from tests.small_models import corpus_of

TOKENS = 60


@pytest.fixture(scope="module")
def corpus():
    return corpus_of(np.random.default_rng(3).integers(1, 29, 200))


@pytest.fixture(scope="module")
def batches(corpus):
    return ra.FixedShapeBatches(corpus, TOKENS, seed=5, num_shapes=4)


def shapes_of(some):
    return {
        array.shape
        for inputs, labels in some
        for array in (*inputs.values(), labels)
    }


def test_batches_have_the_shapes_that_they_say(batches):
    steps = range(2 * len(batches))
    shapes = shapes_of(map(batches.train_batch, steps))
    assert shapes == set(batches.shapes)
    assert len(shapes) <= 4
    evaluated = shapes_of(map(batches.evaluation_batch, range(len(batches))))
    assert evaluated == set(batches.shapes)


def test_a_batch_has_as_many_rows_as_its_tokens_allow(batches):
    for rows, length in batches.shapes:
        assert rows * length <= TOKENS < (rows + 1) * length


@pytest.mark.parametrize("epoch", [None, 0, 1])
def test_every_pair_comes_once_an_epoch_in_fixed_shapes(batches, corpus, epoch):
    pairs = np.concatenate(list(batches.indices(epoch)))
    assert sorted(pairs.tolist()) == list(range(len(corpus)))


def test_rows_are_those_of_other_batches_but_for_padding(batches, corpus):
    plain = ra.TokenBatches(corpus, TOKENS)
    for step in range(len(batches)):
        indices = batches.batch_indices(*divmod(step, len(batches)))
        inputs, labels = batches.train_batch(step)
        expected, expected_labels = plain.batch(indices)
        arrays = [*inputs.values(), labels]
        for array, short in zip(
            arrays, [*expected.values(), expected_labels], strict=True
        ):
            rows, length = short.shape
            np.testing.assert_array_equal(array[:rows, :length], short)
            assert not array[rows:].any() and not array[:, length:].any()


def test_a_pair_longer_than_the_budget_is_a_batch():
    batches = ra.FixedShapeBatches(corpus_of([3, 99]), 50)
    assert (1, 100) in batches.shapes
    assert batches.evaluation_batch(len(batches) - 1)[1].shape == (1, 100)
    with pytest.raises(ValueError, match="`num_shapes`.*Received.*0"):
        ra.FixedShapeBatches(corpus_of([3, 99]), 50, num_shapes=0)


def num_positions(lengths, counts, chosen):
    return sum(
        count * min(size for size in chosen if size >= length)
        for length, count in zip(lengths, counts)
    )


def least_positions(lengths, counts, num_lengths):
    """The least that any choice of so many lengths needs."""
    *shorter, longest = sorted(set(lengths))
    return min(
        num_positions(lengths, counts, {*some, longest})
        for size in range(num_lengths)
        for some in itertools.combinations(shorter, size)
    )


@pytest.mark.parametrize("num_lengths", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_chosen_lengths_pad_least(seed, num_lengths):
    random = np.random.default_rng(seed)
    lengths = np.sort(random.integers(1, 40, 9))
    counts = random.integers(1, 50, 9)
    chosen = choose_lengths(lengths, counts, num_lengths)
    assert len(chosen) <= num_lengths
    assert (np.diff(chosen) > 0).all()
    assert chosen[-1] == lengths[-1]
    assert num_positions(lengths, counts, chosen) == least_positions(
        lengths.tolist(), counts.tolist(), num_lengths
    )
