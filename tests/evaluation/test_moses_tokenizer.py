"""BLEU in the manner that is published for Multi30k."""

import gzip
import pathlib
import sys

import pytest
import sacrebleu
import sacremoses

import relative_attention as ra

MULTI30K = pathlib.Path(__file__).parents[3] / "shared/data/multi30k"
HYPOTHESES = [
    'Ein "Mann" & eine Frau: z. B. am Rad-Weg.',
    "Zwei hunde spielen im T-Shirt d.h. im Schnee.",
]
REFERENCES = [
    'Ein "Mann" und eine Frau: z. B. am Rad-Weg.',
    "Zwei Hunde spielen im T-Shirt, d.h. im Schnee.",
]


def tokens(line, language, **how):
    return sacremoses.MosesTokenizer(language).tokenize(
        line, return_str=True, escape=False, **how
    )


def published(hypotheses, references, language):
    """Plain formula: lowercase, cut, and let sacreBLEU cut no more."""
    metric = sacrebleu.metrics.BLEU(tokenize="none")
    hypotheses, references = (
        [tokens(line.lower(), language) for line in side]
        for side in (hypotheses, references)
    )
    return metric.corpus_score(hypotheses, [references])


def test_score_is_that_of_lowercased_text_cut_before():
    expected = published(HYPOTHESES, REFERENCES, "de").score
    bleu = ra.corpus_bleu(HYPOTHESES, REFERENCES, True, "moses-de")
    assert bleu.score == expected
    how = {"lowercase": True, "tokenize": "moses-de"}
    score = ra.corpus_scores(HYPOTHESES, REFERENCES, ["bleu"], **how)["bleu"]
    assert score.score == expected
    assert 0 < expected < 100


def test_signature_names_tokeniser_language_and_version():
    score = ra.corpus_bleu(HYPOTHESES, REFERENCES, True, "moses-de")
    assert score.signature == (
        "nrefs:1|case:lc|eff:no|tok:moses-de-sacremoses-"
        f"{sacremoses.__version__}|smooth:exp|version:{sacrebleu.__version__}"
    )


def test_bootstrap_takes_it_too():
    systems = {"first": HYPOTHESES, "second": REFERENCES}
    how = {"lowercase": True, "tokenize": "moses-de"}
    first, second = ra.paired_bootstrap(
        systems, REFERENCES, ["bleu"], 40, **how
    )["bleu"]
    assert "tok:moses-de" in first.signature
    assert first.score == published(HYPOTHESES, REFERENCES, "de").score
    assert second.score == pytest.approx(100)


def test_sentences_are_cut_by_the_rules_of_their_language():
    line = "l'arc-en-ciel d'ici"
    # French parts the article from its word, German does not.
    assert tokens(line, "fr") != tokens(line, "de")
    for language in ("fr", "de"):
        (score,) = ra.sentence_scores(
            [line], [tokens(line, "fr")], ["bleu"], False, f"moses-{language}"
        )["bleu"]
        expected = sacrebleu.metrics.BLEU(tokenize="none", effective_order=True)
        assert (
            score
            == expected.sentence_score(
                tokens(line, language), [tokens(tokens(line, "fr"), language)]
            ).score
        )


@pytest.mark.parametrize(
    ("tokenize", "message"),
    [
        ("moses-dd", "knows. Received: 'dd'.* Known: as, .*de, "),
        ("moses-", "knows. Received: ''"),
    ],
)
def test_unknown_language_is_refused(tokenize, message):
    with pytest.raises(ValueError, match=message):
        ra.corpus_bleu(HYPOTHESES, REFERENCES, tokenize=tokenize)


def test_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(ValueError, match="`pip install sacremoses`"):
        ra.corpus_bleu(HYPOTHESES, REFERENCES, tokenize="moses-de")
    # Whoever does not ask for it does not need it.
    ra.corpus_bleu(HYPOTHESES, REFERENCES)


@pytest.mark.skipif(not MULTI30K.is_dir(), reason="Multi30k is not here")
@pytest.mark.parametrize(
    ("language", "num_tokens"), [("de", 12103), ("fr", 13988)]
)
def test_references_have_the_published_number_of_tokens(language, num_tokens):
    path = MULTI30K / f"test_2016_flickr.{language}.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        references = file.read().removesuffix("\n").split("\n")
    assert len(references) == 1000
    metric = sacrebleu_metric(language)
    score = metric.corpus_score(references, [references])
    assert score.ref_len == score.sys_len == num_tokens


def sacrebleu_metric(language):
    from relative_attention.evaluation.sacrebleu_metrics import (
        sacrebleu_metrics,
    )

    return sacrebleu_metrics(["bleu"], True, f"moses-{language}")["bleu"]
