"""Systems of several seeds, compared by counts alone."""

import json

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.evaluation import BleuStatistics
from relative_attention.evaluation import bootstrap_of_means
from relative_attention.evaluation import paired_bootstrap

WORDS = "a man rides an old red bike down the long street .".split()


@pytest.fixture
def references(rng):
    return [" ".join(rng.choice(WORDS, rng.integers(4, 12))) for _ in range(60)]


def worse(lines, rate, seed):
    """Lines in which some words are others."""
    rng = np.random.default_rng(seed)
    return [
        " ".join(w if rng.random() > rate else "?" for w in line.split())
        for line in lines
    ]


def test_bleu_of_counts_is_that_of_the_text(references):
    hypotheses = worse(references, 0.3, 1)
    statistics = BleuStatistics.of_texts(hypotheses, references)
    expected = ra.corpus_bleu(hypotheses, references)
    assert statistics.bleu() == pytest.approx(expected.score, abs=1e-9)
    assert statistics.signature == expected.signature
    some = [3, 3, 17, 42]
    part = ra.corpus_bleu(
        *[[t[n] for n in some] for t in (hypotheses, references)]
    )
    assert statistics.bleu(np.array(some)) == pytest.approx(
        part.score, abs=1e-9
    )


def test_counts_come_back_from_a_file_and_take_little(references):
    statistics = BleuStatistics.of_texts(worse(references, 0.3, 1), references)
    text = json.dumps(statistics.to_json())
    again = BleuStatistics.from_json(json.loads(text))
    np.testing.assert_array_equal(again.counts, statistics.counts)
    assert again.signature == statistics.signature
    assert len(text) < 12 * len(references) + 200
    with pytest.raises(ValueError, match="damaged"):
        BleuStatistics.from_json({**json.loads(text), "counts": "AAAA"})


def test_one_seed_gives_what_sacrebleu_gives(references):
    """Where the sign is beyond doubt, p-values and all."""
    systems = {
        name: worse(references, rate, number)
        for number, (name, rate) in enumerate(
            {"first": 0.1, "second": 0.14, "third": 0.4}.items()
        )
    }
    statistics = {
        name: {1: BleuStatistics.of_texts(lines, references)}
        for name, lines in systems.items()
    }
    expected = paired_bootstrap(systems, references, ["bleu"])["bleu"]
    found = [
        bootstrap_of_means(statistics[name], statistics["first"])
        for name in ("second", "third")
    ]
    for result, other in zip(found, expected[1:], strict=True):
        assert result.difference == pytest.approx(
            other.score - expected[0].score, abs=1e-9
        )
        assert result.low < result.difference < result.high
    assert found[1].p_value == pytest.approx(expected[2].p_value)
    assert found[1].high < 0


def test_difference_of_means_is_resampled_jointly(references):
    """Against loops: every run sees the same sentences at a time."""
    runs = {
        name: {
            seed: BleuStatistics.of_texts(
                worse(references, rate, 10 * seed + number), references
            )
            for seed in (1, 2, 3)
        }
        for number, (name, rate) in enumerate({"a": 0.2, "b": 0.25}.items())
    }
    # A seed that only one of the two has is left out.
    runs["a"][4] = BleuStatistics.of_texts(references, references)
    found = bootstrap_of_means(runs["a"], runs["b"], 50, seed=7)
    rng = np.random.default_rng(7)
    differences = []
    for draw in rng.choice(len(references), (50, len(references))):
        one, other = (
            np.mean([runs[name][seed].bleu(draw) for seed in (1, 2, 3)])
            for name in "ab"
        )
        differences.append(one - other)
    ordered = np.sort(differences)
    assert found.num_seeds == 3
    np.testing.assert_allclose([found.low, found.high], ordered[[1, -2]])
    mean = np.mean(
        [runs["a"][s].bleu() - runs["b"][s].bleu() for s in (1, 2, 3)]
    )
    assert found.difference == pytest.approx(mean)
    by_chance = np.abs(differences - np.mean(differences)) > abs(mean)
    assert found.p_value == pytest.approx((by_chance.sum() + 1) / 51)


def test_equal_systems_do_not_differ(references):
    run = {1: BleuStatistics.of_texts(worse(references, 0.2, 1), references)}
    found = bootstrap_of_means(run, run)
    assert (found.difference, found.low, found.high, found.p_value) == (
        0,
        0,
        0,
        1,
    )


def test_what_cannot_be_compared_is_refused(references):
    run = {1: BleuStatistics.of_texts(references, references)}
    with pytest.raises(ValueError, match="a seed in common"):
        bootstrap_of_means(run, {2: run[1]})
    other = [f"{line} too" for line in references]
    with pytest.raises(ValueError, match="the same test text"):
        bootstrap_of_means(run, {1: BleuStatistics.of_texts(other, other)})
    with pytest.raises(ValueError, match="at least 40"):
        bootstrap_of_means(run, run, num_resamples=5)
