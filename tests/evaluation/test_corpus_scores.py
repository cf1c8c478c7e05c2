import pytest
import sacrebleu

import relative_attention as ra

HYPOTHESES = ["Ein Mann fährt Rad .", "Zwei hunde spielen im Schnee."]
REFERENCES = ["Ein Mann fährt Fahrrad.", "Zwei Hunde spielen im Schnee."]


@pytest.mark.parametrize(
    ("metric", "function", "name"),
    [
        ("bleu", sacrebleu.corpus_bleu, "BLEU"),
        ("chrf", sacrebleu.corpus_chrf, "chrF2"),
        ("ter", sacrebleu.corpus_ter, "TER"),
    ],
)
def test_scores_are_sacrebleus(metric, function, name):
    score = ra.corpus_scores(HYPOTHESES, REFERENCES)[metric]
    assert score.score == function(HYPOTHESES, [REFERENCES]).score
    assert score.name == name
    assert f"version:{sacrebleu.__version__}" in score.signature
    assert str(score) == f"{name} {score.score:.2f} ({score.signature})"


def test_bleu_is_that_of_corpus_bleu():
    score = ra.corpus_scores(HYPOTHESES, REFERENCES, ["bleu"])["bleu"]
    assert str(score) == str(ra.corpus_bleu(HYPOTHESES, REFERENCES))


def test_case_is_ignored_when_asked_and_the_signatures_tell():
    cased, lowercased = (
        ra.corpus_scores(HYPOTHESES, REFERENCES, lowercase=lowercase)
        for lowercase in (False, True)
    )
    for metric in ("bleu", "chrf"):
        assert "case:mixed" in cased[metric].signature
        assert "case:lc" in lowercased[metric].signature
        assert lowercased[metric].score > cased[metric].score
    assert cased["ter"] == lowercased["ter"]
    assert "case:lc" in cased["ter"].signature


def test_tokeniser_is_bleus():
    scores = ra.corpus_scores(HYPOTHESES, REFERENCES, ["bleu"], tokenize="char")
    assert "tok:char" in scores["bleu"].signature


def test_metrics_come_in_the_order_asked_for():
    scores = ra.corpus_scores(HYPOTHESES, REFERENCES, ["ter", "bleu"])
    assert list(scores) == ["ter", "bleu"]


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (["bleu", "chrff"], "metric 'chrff'. Did you mean 'chrf'\\? Known: b"),
        (["comet"], "Unknown metric 'comet'. Known: bleu, chrf, ter"),
        ([], "one or more of bleu, chrf, ter. Received: \\[\\]"),
        ("bleu", "must be a list.* Received: 'bleu'"),
    ],
    ids=str,
)
@pytest.mark.parametrize("function", ["corpus_scores", "sentence_scores"])
def test_unknown_metrics_are_refused(function, metrics, message):
    with pytest.raises(ValueError, match=message):
        getattr(ra, function)(HYPOTHESES, REFERENCES, metrics)


@pytest.mark.parametrize("num_references", [0, 1], ids=str)
@pytest.mark.parametrize("function", ["corpus_scores", "sentence_scores"])
def test_unequal_numbers_are_refused(function, num_references):
    hypotheses = HYPOTHESES if num_references else []
    with pytest.raises(ValueError, match="`hypotheses`.* same number of lines"):
        getattr(ra, function)(hypotheses, REFERENCES[:num_references])
