import pytest

import relative_attention as ra

WORDS = [1, 12, 5, 5, 30, 12, 9, 2]
SOURCES = [" ".join(["word"] * number) for number in WORDS]
REFERENCES = [
    f"Ein Mann fährt {line} Mal mit dem Rad." for line in range(len(WORDS))
]
HYPOTHESES = [
    text.replace("Mann", "Kind") if line % 2 else text
    for line, text in enumerate(REFERENCES)
]


def test_buckets_are_scored_as_texts_of_their_own():
    scores = ra.bleu_by_length(SOURCES, HYPOTHESES, REFERENCES, [5, 7, 12])
    # Nothing has 6 or 7 words.
    assert [(s.least, s.most, s.mean, s.num_sentences) for s in scores] == [
        (1, 5, 13 / 4, 4),
        (9, 12, 11, 3),
        (30, 30, 30, 1),
    ]
    for score, lines in zip(scores, ([0, 2, 3, 7], [1, 5, 6], [4])):
        expected = ra.corpus_bleu(
            [HYPOTHESES[line] for line in lines],
            [REFERENCES[line] for line in lines],
        )
        assert score.bleu == expected.score
    assert scores[2].bleu == pytest.approx(100)
    assert scores[1].bleu < 90


def test_one_bucket_has_the_score_of_the_text():
    [score] = ra.bleu_by_length(SOURCES, HYPOTHESES, REFERENCES, [])
    assert score.bleu == ra.corpus_bleu(HYPOTHESES, REFERENCES).score


def test_case_and_tokeniser_are_those_asked_for():
    lowered = [text.lower() for text in REFERENCES]
    how = {"lowercase": True, "tokenize": "char"}
    scores = ra.bleu_by_length(SOURCES, lowered, REFERENCES, [9], **how)
    assert [score.bleu for score in scores] == pytest.approx([100, 100])
    [score] = ra.bleu_by_length(SOURCES, HYPOTHESES, REFERENCES, [], **how)
    assert score.bleu == ra.corpus_bleu(HYPOTHESES, REFERENCES, **how).score


def test_buckets_are_about_equally_large_by_default(rng):
    lengths = rng.integers(3, 40, size=800)
    sources = [" ".join(["word"] * number) for number in lengths]
    texts = ["Das ist ein Satz."] * len(sources)
    scores = ra.bleu_by_length(sources, texts, texts)
    assert len(scores) == 8
    assert sum(score.num_sentences for score in scores) == 800
    assert all(60 < score.num_sentences < 140 for score in scores)
    for shorter, longer in zip(scores, scores[1:]):
        assert shorter.most < longer.least


@pytest.mark.parametrize("number", [1, 3, 20])
def test_sentences_of_one_length_are_one_bucket(number):
    texts = ["Das ist ein Satz."] * number
    [score] = ra.bleu_by_length(texts, texts, texts)
    assert (score.least, score.most, score.num_sentences) == (4, 4, number)


@pytest.mark.parametrize(
    ("sources", "hypotheses", "boundaries", "message"),
    [
        (SOURCES[1:], HYPOTHESES, None, "`sources` and.*7 and 8"),
        (SOURCES, HYPOTHESES[1:], None, "`hypotheses` and.*7 and 8"),
        (SOURCES, HYPOTHESES, [5, 5], r"must rise.*Received: \[5, 5\]"),
        (SOURCES, HYPOTHESES, [9, 5], "must rise"),
    ],
    ids=["sources", "hypotheses", "equal", "falling"],
)
def test_what_is_wrong_is_named(sources, hypotheses, boundaries, message):
    with pytest.raises(ValueError, match=message):
        ra.bleu_by_length(sources, hypotheses, REFERENCES, boundaries)
