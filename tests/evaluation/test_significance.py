"""Significance, on texts whose difference is known."""

import base64
import json
import zlib

import numpy as np
import pytest
import sacrebleu
from sacrebleu.significance import PairedTest

import relative_attention as ra
from relative_attention.evaluation.significance import SentenceStatistics
from relative_attention.evaluation.significance import bootstrap_of_means
from relative_attention.evaluation.significance import bootstrap_table

WORDS = [f"word{index}" for index in range(40)]


def with_errors(rng, sentences, rate):
    """The sentences with a share of their words replaced."""
    return [
        " ".join("?" if rng.random() < rate else w for w in sentence.split())
        for sentence in sentences
    ]


@pytest.fixture
def references(rng):
    lengths = rng.integers(6, 15, size=60)
    return [" ".join(rng.choice(WORDS, size=length)) for length in lengths]


@pytest.fixture
def systems(rng, references):
    """Errors in 40 % of the words, in 41 %, and in 10 %."""
    return {
        "first": with_errors(rng, references, 0.40),
        "close": with_errors(rng, references, 0.41),
        "better": with_errors(rng, references, 0.10),
    }


def test_identical_systems_are_not_significant(systems, references):
    results = ra.paired_bootstrap(
        {"first": systems["first"], "copy": list(systems["first"])},
        references,
        num_resamples=40,
    )
    assert list(results) == ["bleu", "chrf", "chrf++", "ter"]
    for first, copy in results.values():
        assert copy.p_value == 1
        assert (copy.score, copy.mean) == (first.score, first.mean)
    run = {1: SentenceStatistics.of_texts(systems["first"], references)}
    found = bootstrap_of_means(run, run)
    numbers = (found.difference, found.low, found.high, found.p_value)
    assert numbers == (0, 0, 0, 1)


def test_bootstrap_equals_sacrebleu(systems, references):
    signatures, expected = PairedTest(
        list(systems.items()),
        {"x": sacrebleu.metrics.BLEU(), "y": sacrebleu.metrics.TER()},
        [references],
        test_type="bs",
        n_samples=100,
    )()
    results = ra.paired_bootstrap(
        systems, references, ["bleu", "ter"], num_resamples=100
    )
    for metric, column in (("bleu", "BLEU"), ("ter", "TER")):
        for system, result, other in zip(
            systems, results[metric], expected[column], strict=True
        ):
            assert (result.system, result.name) == (system, column)
            assert result.signature == signatures[column].format()
            assert result.p_value == other.p_value
            # sacreBLEU adds counts in float32.
            assert (result.score, result.mean, result.interval) == (
                pytest.approx((other.score, other.mean, other.ci), rel=1e-6)
            )


def test_seed_decides_the_resamples(systems, references, monkeypatch):
    monkeypatch.setenv("SACREBLEU_SEED", "99")
    one, again, other = (
        ra.paired_bootstrap(
            systems, references, ["bleu"], num_resamples=50, seed=seed
        )["bleu"]
        for seed in (7, 7, 2)
    )
    assert one == again
    assert all(a.mean != b.mean for a, b in zip(one, other))
    assert "bs:50|seed:7|case:mixed" in one[0].signature


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_resamples": 39}, "`num_resamples` must be at least 40.*=39"),
        ({"seed": 0}, "`seed` must be at least 1. Received: seed=0"),
        ({"systems": {"one": ["a"]}}, "at least two.*\\['one'\\]"),
        (
            {"systems": {"one": ["a"], "two": ["a", "b"]}},
            "systems\\['two'\\].* 2 and 1",
        ),
    ],
    ids=["resamples", "seed", "one", "lines"],
)
def test_wrong_argument_is_refused(arguments, message):
    systems = {"one": ["a"], "two": ["b"]}
    given = {"systems": systems, "references": ["a"], **arguments}
    with pytest.raises(ValueError, match=message):
        ra.paired_bootstrap(**given)


def test_systems_must_be_a_dict():
    with pytest.raises(TypeError, match="`systems` must be a dict.*: list"):
        ra.paired_bootstrap(["one"], ["two"], ["a sentence"])


def test_bootstrap_uses_a_second_reference(systems, references):
    results = [
        ra.paired_bootstrap(systems, given, num_resamples=40)
        for given in (references, [references, systems["close"]])
    ]
    for metric, sign in (("bleu", 1), ("chrf", 1), ("ter", -1)):
        before, now = (one[metric][1] for one in results)
        assert (now.score - before.score) * sign > 0
        assert "nrefs:2|" in now.signature


def test_table_has_a_row_for_each_metric_and_system(systems, references):
    results = ra.paired_bootstrap(
        systems, references, ["bleu", "ter"], num_resamples=100
    )
    lines = bootstrap_table(results).split("\n")
    for line, result in zip(lines[1:7], [*results["bleu"], *results["ter"]]):
        cells = [
            *(result.name, result.system, f"{result.score:.2f}"),
            *(f"{result.mean:.2f}", "±", f"{result.interval:.2f}"),
        ]
        if result.p_value is not None:
            cells.append(f"{result.p_value:.4f}")
        if result.system == "better":
            cells.append("*")
        assert line.split() == cells
    assert "difference from first " in lines[7]
    assert lines[8] == f"BLEU ({results['bleu'][0].signature})"
    assert lines[9] == f"TER ({results['ter'][0].signature})"
    # Numbers are aligned.
    assert len({line.index("±") for line in lines[1:7]}) == 1


# === Several seeds, compared by counts alone ===


def test_counts_give_bleu_after_a_round_trip(systems, references):
    statistics = SentenceStatistics.of_texts(systems["first"], references)
    expected = ra.corpus_bleu(systems["first"], references)
    assert statistics.score() == pytest.approx(expected.score, abs=1e-9)
    assert statistics.signature == expected.signature
    text = json.dumps(statistics.to_json())
    again = SentenceStatistics.from_json(json.loads(text))
    np.testing.assert_array_equal(again.counts, statistics.counts)
    assert again.signature == statistics.signature
    assert len(text) < 12 * len(references) + 200
    with pytest.raises(ValueError, match="damaged"):
        SentenceStatistics.from_json({**json.loads(text), "counts": "AAAA"})


def test_counts_of_too_many_sentences_are_refused():
    packed = base64.b64encode(zlib.compress(bytes(10**8), 9)).decode()
    with pytest.raises(ValueError, match="more than 1,000,000 sentences"):
        SentenceStatistics.from_json({"counts": packed, "signature": ""})


def test_difference_of_means_equals_a_loop_over_resamples(rng, references):
    """All runs see the same sentences."""
    runs = {
        name: {
            seed: SentenceStatistics.of_texts(
                with_errors(rng, references, rate), references
            )
            for seed in (1, 2, 3)
        }
        for name, rate in {"a": 0.2, "b": 0.25}.items()
    }
    # A seed that only one of the two has is ignored.
    runs["a"][4] = SentenceStatistics.of_texts(references, references)
    found = bootstrap_of_means(runs["a"], runs["b"], 50, seed=7)

    def mean(name, draw):
        counts = [runs[name][seed].counts[draw] for seed in (1, 2, 3)]
        return np.mean(
            [
                sacrebleu.metrics.BLEU()
                ._compute_score_from_stats(c.sum(0).tolist())
                .score
                for c in counts
            ]
        )

    draws = np.random.default_rng(7).choice(60, (50, 60))
    differences = [mean("a", draw) - mean("b", draw) for draw in draws]
    difference = mean("a", np.arange(60)) - mean("b", np.arange(60))
    assert found.num_seeds == 3
    np.testing.assert_allclose(
        [found.low, found.high], np.sort(differences)[[1, -2]]
    )
    assert found.difference == pytest.approx(difference)
    by_chance = np.abs(differences - np.mean(differences)) > abs(difference)
    assert found.p_value == pytest.approx((by_chance.sum() + 1) / 51)


def test_incomparable_systems_are_refused(references):
    run = {1: SentenceStatistics.of_texts(references, references)}
    with pytest.raises(ValueError, match="a seed in common"):
        bootstrap_of_means(run, {2: run[1]})
    other = [f"{line} too" for line in references]
    with pytest.raises(ValueError, match="the same test text"):
        bootstrap_of_means(run, {1: SentenceStatistics.of_texts(other, other)})
    with pytest.raises(ValueError, match="at least 40"):
        bootstrap_of_means(run, run, num_resamples=5)
