"""Batches of both directions, and of one from some step on."""

import collections
import itertools

import numpy as np
import pytest

from relative_attention import TokenBatches
from relative_attention import TokenCorpus
from relative_attention.data.bidirectional_start import BidirectionalStart
from relative_attention.data.both_directions import both_directions

BUDGET = 40
END = 1


@pytest.fixture(scope="module")
def corpus():
    """Pairs all of whose sentences differ; offsets as small as on disk."""
    rng = np.random.default_rng(7)
    arrays = {}
    for side in ("source", "target"):
        offsets = np.cumsum([0, *rng.integers(1, 12, 29)]).astype(np.uint32)
        ids = rng.integers(2, 5000, offsets[-1], dtype=np.uint16)
        arrays |= {f"{side}_ids": ids, f"{side}_offsets": offsets}
    return TokenCorpus(
        **arrays,
        # Two lines of the text were left out.
        line_numbers=np.arange(29) + 3,
        num_empty=2,
        num_too_long=0,
    )


@pytest.fixture(scope="module")
def start(corpus):
    batches = TokenBatches(corpus, BUDGET, seed=4, start_token_id=3)
    return BidirectionalStart(batches, num_steps=7)


def sentences(corpus, side):
    ids = getattr(corpus, f"{side}_ids")
    offsets = getattr(corpus, f"{side}_offsets")
    return [tuple(ids[a:b].tolist()) for a, b in itertools.pairwise(offsets)]


def pairs(corpus):
    return list(zip(sentences(corpus, "source"), sentences(corpus, "target")))


def pairs_of(batch):
    """The pairs that a batch holds, without padding and ends."""
    inputs, labels = batch
    rows = zip(inputs["source_token_ids"], labels)
    return [
        tuple(tuple(ids[ids > END].tolist()) for ids in row) for row in rows
    ]


def assert_same_batch(batch, expected):
    for name, array in expected[0].items():
        np.testing.assert_array_equal(batch[0][name], array, err_msg=name)
    np.testing.assert_array_equal(batch[1], expected[1])


def test_every_pair_is_there_as_it_is_and_swapped(corpus):
    both = both_directions(corpus)
    swapped = [(target, source) for source, target in pairs(corpus)]
    assert pairs(both) == pairs(corpus) + swapped
    assert both.line_numbers.tolist() == [*range(3, 32)] * 2
    assert both.source_ids.dtype == np.uint16
    assert (both.num_empty, both.num_too_long) == (2, 0)


def test_first_epoch_has_both_directions_in_one_order(corpus):
    epoch = len(TokenBatches(both_directions(corpus), BUDGET))
    start = BidirectionalStart(TokenBatches(corpus, BUDGET), epoch)
    assert epoch > len(start)
    batches = [pairs_of(start.train_batch(step)) for step in range(epoch)]
    seen = collections.Counter(itertools.chain.from_iterable(batches))
    swapped = [(target, source) for source, target in pairs(corpus)]
    assert seen == collections.Counter(pairs(corpus) + swapped)
    # Shuffled as one: a batch has pairs of both directions.
    assert any(set(batch) & set(swapped) for batch in batches)
    assert any(
        set(batch) & set(swapped) and set(batch) & set(pairs(corpus))
        for batch in batches
    )


def test_from_the_switch_on_batches_are_those_of_one_direction(corpus, start):
    alone = TokenBatches(corpus, BUDGET, seed=4, start_token_id=3)
    assert len(start) == len(alone)
    for step in range(2 * len(alone)):
        assert_same_batch(start.train_batch(7 + step), alone.train_batch(step))
    both = TokenBatches(both_directions(corpus), BUDGET, 4, start_token_id=3)
    for step in range(7):
        assert_same_batch(start.train_batch(step), both.train_batch(step))


@pytest.mark.parametrize("first_step", [0, 5, 6, 7, 9], ids=str)
def test_dataset_goes_on_at_any_step(first_step, start):
    dataset = start.train_dataset(first_step).take(5)
    steps = itertools.count(first_step)
    num_batches = 0
    for inputs, labels in dataset.as_numpy_iterator():
        assert_same_batch((inputs, labels), start.train_batch(next(steps)))
        num_batches += 1
    assert num_batches == 5


def test_dataset_is_divided_among_machines_by_rows(start):
    import tensorflow as tf

    for first_step in (0, 7):
        options = start.train_dataset(first_step).options()
        policy = options.experimental_distribute.auto_shard_policy
        assert policy == tf.data.experimental.AutoShardPolicy.DATA


def test_lines_of_a_step_are_told_once(corpus, start):
    line_of = {}
    for line, (source, target) in zip(corpus.line_numbers, pairs(corpus)):
        line_of |= {(source, target): line, (target, source): line}
    for step in range(12):
        expected = {line_of[p] for p in pairs_of(start.train_batch(step))}
        assert start.line_numbers(step) == sorted(expected)


def test_both_directions_are_not_read_after_them(corpus):
    start = BidirectionalStart(TokenBatches(corpus, BUDGET), 3)
    start.train_batch(3), start.train_dataset(4), start.line_numbers(5)
    assert "start" not in vars(start)
