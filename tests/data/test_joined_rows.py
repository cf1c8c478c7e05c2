"""Batches with joined pairs: what is in them, and what stays the same."""

import dataclasses

import numpy as np
import pytest

import relative_attention as ra
from tests.data.batch_arrays import assert_same_batch
from tests.small_models import corpus_of as random_corpus

BUDGET = 120
JOIN = {"join": 4, "join_share": 0.5}


def corpus_of(source_lengths, target_lengths):
    """A corpus whose pair `i` has the id `2 + i` alone, on both sides."""
    ids = np.arange(len(source_lengths)) + 2
    return dataclasses.replace(
        random_corpus(source_lengths, target_lengths),
        source_ids=np.repeat(ids, source_lengths),
        target_ids=np.repeat(ids, target_lengths),
    )


@pytest.fixture(scope="module")
def corpus():
    rng = np.random.default_rng(7)
    source = rng.integers(1, 9, 400)
    return corpus_of(source, np.maximum(1, source + rng.integers(-2, 3, 400)))


@pytest.fixture(scope="module", params=[ra.TokenBatches, ra.FixedShapeBatches])
def batches(request, corpus):
    return request.param(corpus, BUDGET, seed=3, **JOIN)


def rows_of(batch):
    """The pairs of each row on the source side, checked on the other two."""
    inputs, labels = batch
    rows = []
    for source, target, label in zip(*inputs.values(), labels, strict=True):
        if not label.any():
            continue  # Padding of a fixed shape.
        for ids in (source, label):
            # One end of sentence, after all tokens.
            assert (ids == 1).sum() == 1 and ids[ids > 0][-1] == 1
        pairs = list(dict.fromkeys((source[source > 1] - 2).tolist()))
        assert pairs == list(dict.fromkeys((label[label > 1] - 2).tolist()))
        np.testing.assert_array_equal(
            target[1:] * (label[1:] > 0), np.where(label > 1, label, 0)[:-1]
        )
        rows.append(pairs)
    return rows


def epoch_of(batches, epoch):
    first = epoch * len(batches)
    return [
        row
        for step in range(first, first + len(batches))
        for row in rows_of(batches.train_batch(step))
    ]


def partners(rows):
    return {frozenset(pair) for row in rows for pair in zip(row, row[1:])}


def test_every_pair_comes_once_an_epoch_and_whole(batches, corpus):
    for epoch in (0, 1, 5):
        assert sorted(sum(epoch_of(batches, epoch), [])) == list(range(400))
    num_tokens = sum(
        (labels > 1).sum()
        for _, labels in map(batches.train_batch, range(len(batches)))
    )
    assert num_tokens == len(corpus.target_ids)


def test_rows_join_as_many_pairs_as_asked(batches):
    first, second = (epoch_of(batches, epoch) for epoch in (0, 1))
    sizes = np.array([len(row) for row in first])
    assert set(sizes) == {1, 2, 3, 4}
    assert (sizes > 1).mean() == pytest.approx(0.5, abs=0.1)
    assert len(partners(first) & partners(second)) < 0.05 * len(first)


def test_budget_is_kept_in_every_epoch(batches):
    for step in range(3 * len(batches)):
        inputs, labels = batches.train_batch(step)
        rows = max(labels.shape[0], 1)
        longest = max(labels.shape[1], inputs["source_token_ids"].shape[1])
        assert rows == 1 or rows * longest <= BUDGET


def test_no_row_is_longer_than_allowed(corpus):
    batches = ra.TokenBatches(corpus, BUDGET, max_length=14, **JOIN)
    widths = [
        array.shape[1]
        for inputs, labels in map(batches.train_batch, range(len(batches)))
        for array in (*inputs.values(), labels)
    ]
    assert max(widths) <= 14
    assert partners(epoch_of(batches, 0))
    # Nor than a batch, where no limit is given.
    short = ra.TokenBatches(corpus, 13, **JOIN)
    for step in range(len(short)):
        assert short.train_batch(step)[1].shape[1] <= 13


def test_batches_are_a_function_of_seed_and_step(batches, corpus):
    step = 2 * len(batches) + 3
    same = type(batches)(corpus, BUDGET, seed=3, **JOIN)
    assert_same_batch(same.train_batch(step), batches.train_batch(step))
    pairs = sum(rows_of(batches.train_batch(step)), [])
    assert batches.line_numbers(step) == sorted(n + 1 for n in pairs)
    other = type(batches)(corpus, BUDGET, seed=4, **JOIN)
    assert partners(epoch_of(other, 0)) != partners(epoch_of(batches, 0))


def test_joined_rows_stay_the_same_over_versions():
    # A resumed run must see the batches of the version that began it.
    few = corpus_of([1, 2, 1, 3, 1, 2], [2, 1, 2, 3, 2, 1])
    batches = ra.TokenBatches(few, 12, seed=7, join=3, join_share=0.7)
    assert [epoch_of(batches, epoch) for epoch in (0, 1)] == [
        [[4], [3], [2, 0], [1, 5]],
        [[4], [3], [0, 2], [5, 1]],
    ]


def test_fixed_shapes_are_those_that_they_say(corpus):
    batches = ra.FixedShapeBatches(corpus, BUDGET, num_shapes=4, **JOIN)
    arrays = [
        (inputs["source_token_ids"], labels)
        for inputs, labels in map(batches.train_batch, range(len(batches)))
    ]
    assert {labels.shape for _, labels in arrays} == set(batches.shapes)
    padding = sum((ids == 0).sum() for pair in arrays for ids in pair)
    positions = sum(ids.size for pair in arrays for ids in pair)
    assert batches.padding_share == pytest.approx(padding / positions)


def test_wrong_numbers_are_refused(corpus):
    with pytest.raises(ValueError, match="`join` must be a positive int.*0"):
        ra.TokenBatches(corpus, BUDGET, join=0)
    with pytest.raises(ValueError, match=r"`join_share` must be in \[0, 1\]"):
        ra.TokenBatches(corpus, BUDGET, join=2, join_share=1.5)
