"""Batches: every pair once, within the budget, the same for the same seed."""

import itertools

import numpy as np
import pytest

from relative_attention import TokenBatches
from tests.data.batch_arrays import arrays
from tests.data.batch_arrays import assert_same_batches
from tests.small_models import corpus_of

BUDGET = 97


@pytest.fixture(scope="module")
def corpus():
    rng = np.random.default_rng(7)
    source = rng.integers(1, 40, 331)
    target = np.maximum(1, source + rng.integers(-5, 8, 331))
    return corpus_of(source, target)


@pytest.fixture(scope="module")
def few(corpus):
    """Few enough to be made into tensors."""
    return corpus_of(
        corpus.source_lengths[:29] - 1, corpus.target_lengths[:29] - 1
    )


def epoch_of(batches, epoch):
    return [indices.tolist() for indices in batches.indices(epoch)]


def sentence(ids, offsets, index):
    return ids[offsets[index] : offsets[index + 1]].tolist()


# === Which pairs stand together ===


@pytest.mark.parametrize("epoch", [0, 1, 17, None])
def test_every_pair_comes_once_an_epoch(epoch, corpus):
    batches = TokenBatches(corpus, BUDGET, seed=3)
    together = sorted(itertools.chain(*epoch_of(batches, epoch)))
    assert together == list(range(len(corpus)))


@pytest.mark.parametrize("budget", [1, 13, BUDGET, 10**6])
@pytest.mark.parametrize("epoch", [5, None])
def test_budget_is_kept_unless_a_batch_is_one_pair(budget, epoch, corpus):
    longest = np.maximum(corpus.source_lengths, corpus.target_lengths)
    for indices in TokenBatches(corpus, budget).indices(epoch):
        assert len(indices) > 0
        assert len(indices) == 1 or len(indices) * max(longest[indices]) <= (
            budget
        )


def test_batches_stay_the_same_over_versions():
    # A run that goes on must see the batches of the version that began it.
    batches = TokenBatches(
        corpus_of([2, 3, 2, 4, 2, 3, 2, 4], [3, 2, 2, 4, 2, 3, 3, 1]), 12, 7
    )
    assert epoch_of(batches, None) == [[2, 4, 0], [6, 5, 1], [3, 7]]
    assert epoch_of(batches, 0) == [[3, 7], [2, 4, 6], [0, 5, 1]]
    assert epoch_of(batches, 1) == [[3, 7], [4, 2, 5], [6, 0, 1]]


def groups(batches):
    return {frozenset(indices) for indices in batches}


# The seed is not merely added to the epoch.
@pytest.mark.parametrize("seed, epoch", [(5, 1), (6, 0), (4, 1)])
def test_batches_and_their_order_change(seed, epoch, corpus):
    first = epoch_of(TokenBatches(corpus, BUDGET, seed=5), 0)
    other = epoch_of(TokenBatches(corpus, BUDGET, seed=seed), epoch)
    # Other pairs stand together, and long and short come in another order.
    assert groups(first) != groups(other)
    longest = np.maximum(corpus.source_lengths, corpus.target_lengths)
    assert [longest[batch].max() for batch in first] != [
        longest[batch].max() for batch in other
    ]


@pytest.mark.parametrize("budget", [1, 7, 40, 200, 5_000])
def test_cuts_are_those_made_pair_by_pair(budget, rng):
    source, target = rng.choice([1, 2, 3, 9, 10, 30], (2, 100))
    batches = TokenBatches(corpus_of(source, target), budget)
    sizes, rows = [], 0
    for longest in np.sort(np.maximum(source, target) + 1):
        if rows and (rows + 1) * longest > budget:
            sizes.append(rows)
            rows = 0
        rows += 1
    assert [len(batch) for batch in batches.indices()] == [*sizes, rows]
    # And a stable sort by the longer side, then by their difference.
    expected = sorted(
        range(100),
        key=lambda i: (max(source[i], target[i]), source[i] - target[i]),
    )
    assert batches.corpus.length_order.pairs.tolist() == expected


def test_sides_of_a_batch_are_almost_even(corpus):
    # At random within a length they would be 7 of 12 differences apart.
    many = corpus_of([20] * 3_000, 1 + np.arange(3_000) % 12)
    for indices in TokenBatches(many, 21 * 100).indices(4):
        lengths = many.target_lengths[indices]
        assert lengths.max() - lengths.min() <= 2


def test_most_pairs_meet_others_in_every_epoch():
    many = corpus_of([9] * 2_000, [9] * 2_000)
    batches = TokenBatches(many, 10 * 50)
    together = []
    for epoch in (0, 1):
        batch_of = np.zeros(2_000, int)
        for number, indices in enumerate(batches.indices(epoch)):
            batch_of[indices] = number
        together.append(batch_of)
    # Of 49 others in a batch, one or two come again by chance.
    same = [batch_of[:, None] == batch_of for batch_of in together]
    again = (same[0] & same[1]).sum() - 2_000
    assert 1_000 < again < 4_000


# === What a batch holds ===


def test_batch_holds_the_ids_of_its_pairs(corpus):
    batches = TokenBatches(corpus, BUDGET)
    for indices in batches.indices(0):
        source, inputs, labels = arrays(batches.batch(indices))
        for row, index in enumerate(indices):
            source_ids = sentence(
                corpus.source_ids, corpus.source_offsets, index
            )
            target_ids = sentence(
                corpus.target_ids, corpus.target_offsets, index
            )
            for array, wanted in (
                (source, [*source_ids, 1]),
                (labels, [*target_ids, 1]),
                (inputs, [0, *target_ids]),
            ):
                padding = [0] * (array.shape[1] - len(wanted))
                assert array[row].tolist() == wanted + padding
        # No wider than the longest sentence.
        assert source.shape[1] == corpus.source_lengths[indices].max()
        assert labels.shape[1] == corpus.target_lengths[indices].max()


# === Datasets ===


def take(dataset, count):
    return list(dataset.take(count).as_numpy_iterator())


@pytest.mark.parametrize("where", [0, 2.5])
def test_training_begins_at_any_step(where, few):
    batches = TokenBatches(few, BUDGET, seed=2)
    length = len(batches)
    first_step = int(where * length)
    expected = [
        batches.batch(indices)
        for epoch in range(4)
        for indices in batches.indices(epoch)
    ][first_step : first_step + length + 1]
    assert len(expected) == length + 1
    dataset = batches.train_dataset(first_step)
    assert_same_batches(take(dataset, length + 1), expected)
    steps = range(first_step, first_step + length + 1)
    assert_same_batches(map(batches.train_batch, steps), expected)
    # And begins again when it is iterated again.
    assert_same_batches(take(dataset, 2), expected[:2])
    inputs, labels = dataset.element_spec
    for spec in (*inputs.values(), labels):
        assert spec.shape.as_list() == [None, None]


def test_evaluation_sees_every_pair_once(few):
    batches = TokenBatches(few, BUDGET)
    dataset = batches.evaluation_dataset()
    assert int(dataset.cardinality()) == len(batches)
    for _ in range(2):
        expected = [batches.batch(indices) for indices in batches.indices()]
        assert_same_batches(dataset, expected)


# === Real lengths ===
