"""Significance, on texts whose difference is known."""

import logging
import os

import pytest
import sacrebleu
from sacrebleu.significance import PairedTest

import relative_attention as ra
from relative_attention.evaluation import bootstrap_table

NUM_SENTENCES = 60
WORDS = [f"word{index}" for index in range(40)]


def text(rng):
    lengths = rng.integers(6, 15, size=NUM_SENTENCES)
    return [" ".join(rng.choice(WORDS, size=length)) for length in lengths]


def with_errors(rng, sentences, rate):
    """The sentences with a share of their words replaced."""
    return [
        " ".join(
            "wrong" if rng.random() < rate else word
            for word in sentence.split()
        )
        for sentence in sentences
    ]


@pytest.fixture
def references(rng):
    return text(rng)


@pytest.fixture
def systems(rng, references):
    """Errors in 40 % of the words, in 41 %, and in 10 %."""
    return {
        "first": with_errors(rng, references, 0.40),
        "alike": with_errors(rng, references, 0.41),
        "better": with_errors(rng, references, 0.10),
    }


def test_clearly_better_system_is_significant_and_one_alike_is_not(
    systems, references
):
    results = ra.paired_bootstrap(systems, references, num_resamples=200)
    assert list(results) == ["bleu", "chrf", "ter"]
    for metric, (first, alike, better) in results.items():
        assert first.p_value is None
        assert alike.p_value > 0.05
        assert better.p_value < 0.05
        sign = -1 if metric == "ter" else 1
        assert sign * (better.score - first.score) > first.interval > 0


def test_identical_systems_are_not_significant(systems, references):
    results = ra.paired_bootstrap(
        {"first": systems["first"], "copy": list(systems["first"])},
        references,
        num_resamples=40,
    )
    for first, copy in results.values():
        assert copy.p_value == 1
        assert (copy.score, copy.mean) == (first.score, first.mean)


def test_numbers_are_sacrebleus(systems, references):
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
        for index, (system, result) in enumerate(
            zip(systems, results[metric], strict=True)
        ):
            other = expected[column][index]
            assert (result.system, result.name) == (system, column)
            assert (
                result.score,
                result.mean,
                result.interval,
                result.p_value,
            ) == (other.score, other.mean, other.ci, other.p_value)
            assert result.signature == signatures[column].format()


def test_scores_are_those_of_corpus_scores(systems, references):
    results = ra.paired_bootstrap(systems, references, num_resamples=40)
    for index, hypotheses in enumerate(systems.values()):
        for metric, score in ra.corpus_scores(hypotheses, references).items():
            assert results[metric][index].score == score.score


def test_signature_tells_resamples_and_seed(systems, references, monkeypatch):
    monkeypatch.setenv("SACREBLEU_SEED", "99")
    results = ra.paired_bootstrap(
        systems, references, ["bleu"], num_resamples=50, seed=7
    )
    assert "bs:50|seed:7|case:mixed" in results["bleu"][0].signature
    assert os.environ["SACREBLEU_SEED"] == "99"


def test_seed_decides_the_resamples(systems, references):
    one, again, other = (
        ra.paired_bootstrap(
            systems, references, ["bleu"], num_resamples=40, seed=seed
        )
        for seed in (1, 1, 2)
    )
    assert one == again
    assert "SACREBLEU_SEED" not in os.environ
    for index in range(len(systems)):
        assert one["bleu"][index].mean != other["bleu"][index].mean


def test_case_and_tokeniser_are_as_asked_for(systems, references):
    shouted = {name: [s.upper() for s in t] for name, t in systems.items()}
    results = ra.paired_bootstrap(
        shouted,
        references,
        ["bleu"],
        num_resamples=40,
        lowercase=True,
        tokenize="none",
    )
    assert results["bleu"][0].score > 1
    assert "case:lc|eff:no|tok:none" in results["bleu"][0].signature


def test_sacrebleu_logs_nothing(systems, references, caplog):
    caplog.set_level(logging.INFO)
    ra.paired_bootstrap(systems, references, ["bleu"], num_resamples=40)
    assert caplog.records == []
    logging.getLogger("sacrebleu").info("as before")
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_resamples": 39}, "`num_resamples` must be at least 40.*=39"),
        ({"seed": 0}, "`seed` must be at least 1. Received: seed=0"),
        ({"metrics": ["beer"]}, "Unknown metric 'beer'"),
        ({"systems": {"one": ["a"]}}, "at least two.*\\['one'\\]"),
        (
            {"systems": {"one": ["a"], "two": ["a", "b"]}},
            "systems\\['two'\\].* 2 and 1",
        ),
    ],
    ids=["resamples", "seed", "metric", "one", "lines"],
)
def test_wrong_argument_is_named(arguments, message):
    given = {
        "systems": {"one": ["a"], "two": ["b"]},
        "references": ["a"],
        **arguments,
    }
    with pytest.raises(ValueError, match=message):
        ra.paired_bootstrap(**given)


def test_table_has_a_row_for_each_metric_and_system(systems, references):
    results = ra.paired_bootstrap(
        systems, references, ["bleu", "ter"], num_resamples=100
    )
    lines = bootstrap_table(results).split("\n")
    cells = [line.split() for line in lines[1:7]]
    assert [row[:2] for row in cells] == [
        [metric, system] for metric in ("BLEU", "TER") for system in systems
    ]
    for row, result in zip(cells, [*results["bleu"], *results["ter"]]):
        assert row[2:6] == [
            f"{result.score:.2f}",
            f"{result.mean:.2f}",
            "±",
            f"{result.interval:.2f}",
        ]
    assert len(cells[0]) == 6
    assert cells[1][6:] == [f"{results['bleu'][1].p_value:.4f}"]
    assert cells[2][6:] == [f"{results['bleu'][2].p_value:.4f}", "*"]
    assert "difference from first " in lines[7]
    assert lines[8] == f"BLEU ({results['bleu'][0].signature})"
    assert lines[9] == f"TER ({results['ter'][0].signature})"
    # Numbers stand under one another.
    assert len({line.index("±") for line in lines[1:7]}) == 1
