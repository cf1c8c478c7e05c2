"""Batches of text spelt at random: a function of the step, and full."""

import itertools

import numpy as np
import pytest

import relative_attention as ra
from tests.data.batch_arrays import arrays
from tests.data.batch_arrays import assert_same_batch
from tests.data.piece_models import encoded
from tests.data.piece_models import rows_of

BUDGET = 250


def sentences(count):
    random = np.random.default_rng(0)
    words = "one two three four seven eleven thousand ninety-nine".split()
    return [
        " ".join(random.choice(words, random.integers(1, 10)))
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def vocabulary():
    return ra.Vocabulary.train(sentences(400), 320, or_fewer=True)


@pytest.fixture(scope="module")
def lines():
    return sentences(1200)


@pytest.fixture(scope="module")
def corpus(lines, vocabulary):
    return encoded(lines, vocabulary)


@pytest.fixture
def sampled(corpus, vocabulary):
    def sampled(seed=3, rate=0.2, batch_tokens=BUDGET):
        sampling = ra.SubwordSampling(vocabulary, vocabulary, rate, 60)
        return ra.TokenBatches(corpus, batch_tokens, seed, sampling=sampling)

    return sampled


def padded_size(batch):
    source, _, labels = arrays(batch)
    return len(labels) * max(source.shape[1], labels.shape[1])


@pytest.mark.parametrize("epoch", [0, 1, 5])
def test_every_pair_comes_once_an_epoch(epoch, sampled, corpus):
    batches = sampled()
    # Windows are many, and the last is smaller.
    assert len(batches) > 2 * 32 and len(batches) % 32
    pairs = list(batches.indices(epoch))
    assert sorted(itertools.chain(*pairs)) == list(range(len(corpus)))
    assert all(len(indices) for indices in pairs)


def test_batches_have_the_text_of_their_pairs(sampled, lines, vocabulary):
    batches = sampled()
    steps = len(batches)
    spellings = 0
    for step in range(steps - 3, steps + 3):
        source, inputs, labels = arrays(batches.train_batch(step))
        indices = batches.batch_indices(*divmod(step, steps))
        texts = [lines[index] for index in indices]
        assert vocabulary.decode(source) == texts
        assert vocabulary.decode(labels) == texts
        spellings += (source.shape != labels.shape) or (source != labels).any()
        assert (inputs[:, 0] == 0).all()
        np.testing.assert_array_equal(
            np.where(labels == 1, 0, labels)[:, :-1], inputs[:, 1:]
        )
        assert batches.line_numbers(step) == sorted(indices + 1)
    assert spellings


def test_a_batch_is_a_function_of_seed_and_step(sampled):
    batches = sampled()
    steps = range(0, 2 * len(batches), 7)
    expected = {step: batches.train_batch(step) for step in steps}
    # In another order, each with nothing drawn before.
    for step in reversed(steps):
        assert_same_batch(sampled().train_batch(step), expected[step])
    others = [sampled(seed=4).train_batch(step) for step in steps]
    assert any(
        a.shape != b.shape or (a != b).any()
        for step, other in zip(steps, others)
        for a, b in zip(arrays(expected[step]), arrays(other))
    )


def test_pairs_are_spelt_anew_each_epoch(sampled, corpus):
    batches = sampled(rate=0.3)
    long_one = int(np.argmax(corpus.source_lengths))
    spellings = set()
    for epoch in range(6):
        for number, indices in enumerate(batches.indices(epoch)):
            if long_one in indices:
                step = epoch * len(batches) + number
                source, _, labels = arrays(batches.train_batch(step))
                row = indices.tolist().index(long_one)
                spellings.update(tuple(ids[row]) for ids in (source, labels))
    assert len(spellings) == 12


def test_batches_are_even_and_hardly_padded(sampled):
    batches = sampled(batch_tokens=1000)
    sizes, tokens, padded = [], 0, 0
    for step in range(2 * len(batches)):
        batch = batches.train_batch(step)
        sizes.append(padded_size(batch))
        for ids in arrays(batch)[::2]:
            tokens += np.count_nonzero(ids)
            padded += ids.size
    assert 800 < np.mean(sizes) < 1100
    assert max(sizes) < 1250
    assert tokens / padded > 0.8


def test_few_pairs_and_small_budgets_make_batches(vocabulary):
    for count, budget in ((1, 100), (3, 1), (9, 45)):
        corpus = encoded(sentences(count), vocabulary)
        sampling = ra.SubwordSampling(vocabulary, vocabulary, 0.5, 60)
        batches = ra.TokenBatches(corpus, budget, sampling=sampling)
        for epoch in (0, 1):
            pairs = list(batches.indices(epoch))
            assert len(pairs) == len(batches)
            assert sorted(itertools.chain(*pairs)) == list(range(count))
            assert all(len(indices) for indices in pairs)


def test_evaluation_is_not_spelt_at_random(sampled, corpus):
    batches = sampled()
    plain = rows_of(corpus, "source")
    for number in range(len(batches)):
        source, _, _ = arrays(batches.evaluation_batch(number))
        for row, pair in zip(source, batches.batch_indices(None, number)):
            assert row[: len(plain[pair])].tolist() == plain[pair]
            assert row[len(plain[pair])] == 1


def test_no_sampling_leaves_batches_as_they_were(corpus, sampled):
    plain = ra.TokenBatches(corpus, BUDGET, seed=3)
    assert len(plain) < len(sampled())
    assert plain.sampling is None
    # At the rate 0, only the pairs of a batch are others.
    none = sampled(rate=0.0)
    assert len(none) == len(plain)
    pairs = list(itertools.chain(*none.indices(2)))
    rows = rows_of(corpus, "target")
    labels = [
        row
        for step in range(2 * len(none), 3 * len(none))
        for row in arrays(none.train_batch(step))[2].tolist()
    ]
    for pair, row in zip(pairs, labels, strict=True):
        assert row[: len(rows[pair])] == rows[pair]


@pytest.mark.only_on("tensorflow", reason="a `tf.data.Dataset`")
def test_dataset_begins_at_any_step(sampled):
    batches = sampled()
    first = len(batches) - 2
    dataset = batches.train_dataset(first_step=first).take(4)
    for step, batch in enumerate(dataset, start=first):
        assert_same_batch(batch, batches.train_batch(step))
