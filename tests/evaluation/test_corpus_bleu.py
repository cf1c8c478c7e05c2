import pytest
import sacrebleu

import relative_attention as ra

HYPOTHESES = ["Ein Mann fährt Rad .", "Zwei hunde spielen im Schnee."]
REFERENCES = ["Ein Mann fährt Fahrrad.", "Zwei Hunde spielen im Schnee."]


def test_score_is_sacrebleus():
    bleu = ra.corpus_bleu(HYPOTHESES, REFERENCES)
    expected = sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES])
    assert bleu.score == expected.score
    assert "case:mixed" in bleu.signature and "tok:13a" in bleu.signature
    assert f"version:{sacrebleu.__version__}" in bleu.signature


def test_case_is_ignored_when_asked():
    cased = ra.corpus_bleu(HYPOTHESES, REFERENCES)
    lowercased = ra.corpus_bleu(HYPOTHESES, REFERENCES, lowercase=True)
    assert lowercased.score > cased.score
    assert "case:lc" in lowercased.signature


def test_equal_texts_score_100():
    assert ra.corpus_bleu(REFERENCES, REFERENCES).score == pytest.approx(100)


def test_text_form_has_score_and_signature():
    bleu = ra.corpus_bleu(HYPOTHESES, REFERENCES)
    assert str(bleu) == f"BLEU {bleu.score:.2f} ({bleu.signature})"


@pytest.mark.parametrize("hypotheses", [HYPOTHESES[:1], []], ids=len)
def test_unequal_numbers_are_refused(hypotheses):
    references = REFERENCES if hypotheses else []
    with pytest.raises(ValueError, match="same number of lines"):
        ra.corpus_bleu(hypotheses, references)
