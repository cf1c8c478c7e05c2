import pytest
import sacrebleu

import relative_attention as ra

HYPOTHESES = ["Ein Mann fährt Rad .", "ja", ""]
REFERENCES = ["Ein Mann fährt Fahrrad.", "ja", "Nein."]


@pytest.mark.parametrize(
    ("metric", "function"),
    [
        ("bleu", sacrebleu.sentence_bleu),
        ("chrf", sacrebleu.sentence_chrf),
        ("ter", sacrebleu.sentence_ter),
    ],
)
def test_scores_are_sacrebleus_in_the_order_of_the_sentences(metric, function):
    assert ra.sentence_scores(HYPOTHESES, REFERENCES)[metric] == [
        function(hypothesis, [reference]).score
        for hypothesis, reference in zip(HYPOTHESES, REFERENCES)
    ]


def test_one_right_word_scores_100():
    # Without effective order it would lack the longer n-grams.
    scores = ra.sentence_scores(HYPOTHESES, REFERENCES, ["bleu"])
    assert scores["bleu"][1] == pytest.approx(100)


def test_case_is_ignored_when_asked():
    scores = ra.sentence_scores(["JA"], ["ja"], lowercase=True)
    assert scores["bleu"] == [pytest.approx(100)]
    assert scores["chrf"] == [pytest.approx(100)]
