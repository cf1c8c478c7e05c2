"""Scores of texts and sentences: those of sacreBLEU, with Moses besides."""

import gzip
import importlib.util
import pathlib
import sys

import pytest
import sacrebleu
import sacremoses

import relative_attention as ra
from relative_attention.evaluation.scores import fitting_tokenizer
from relative_attention.evaluation.scores import sacrebleu_metrics

MULTI30K = pathlib.Path(__file__).parents[3] / "shared/data/multi30k"
HYPOTHESES = ["Ein Mann fährt Rad .", "Zwei hunde spielen am See.", "ja", ""]
REFERENCES = ["Ein Mann fährt Rad.", "Zwei Hunde spielen am See.", "ja", "Nein"]


def buckets_of(scores):
    return [(s.least, s.most, s.mean, s.num_sentences) for s in scores]


@pytest.mark.parametrize(
    ("metric", "name", "options"),
    [
        ("bleu", "BLEU", {}),
        ("chrf", "chrF2", {}),
        ("chrf++", "chrF2++", {"word_order": 2}),
        ("ter", "TER", {}),
    ],
)
def test_corpus_scores_equal_sacrebleu(metric, name, options):
    function = getattr(sacrebleu, f"corpus_{metric.rstrip('+')}")
    score = ra.corpus_scores(HYPOTHESES, REFERENCES)[metric]
    assert score.score == function(HYPOTHESES, [REFERENCES], **options).score
    assert str(score) == f"{name} {score.score:.2f} ({score.signature})"
    assert f"version:{sacrebleu.__version__}" in score.signature
    if metric == "bleu":
        assert score == ra.corpus_bleu(HYPOTHESES, REFERENCES)


@pytest.mark.parametrize("metric", ["bleu", "chrf", "ter"])
def test_sentence_scores_equal_sacrebleu(metric):
    function = getattr(sacrebleu, f"sentence_{metric}")
    scores = ra.sentence_scores(HYPOTHESES, REFERENCES)[metric]
    assert scores == [
        function(hypothesis, [reference]).score
        for hypothesis, reference in zip(HYPOTHESES, REFERENCES)
    ]
    if metric == "bleu":
        # Without effective order it would lack the longer n-grams.
        assert scores[2] == pytest.approx(100)


def test_metrics_case_and_tokenizer_are_chosen():
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
    how = {"metrics": ["ter", "bleu"], "tokenize": "char"}
    scores = ra.corpus_scores(HYPOTHESES, REFERENCES, **how)
    assert list(scores) == ["ter", "bleu"]
    assert "tok:char" in scores["bleu"].signature
    sentences = ra.sentence_scores(["JA"], ["ja"], ["chrf"], lowercase=True)
    assert sentences["chrf"] == [pytest.approx(100)]


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (["bleu", "chrff"], "metric 'chrff'. Did you mean 'chrf'\\? Known: b"),
        ([], "one or more of bleu, chrf, chrf\\+\\+, ter. Received: \\[\\]"),
    ],
    ids=str,
)
def test_unknown_metrics_are_refused(metrics, message):
    with pytest.raises(ValueError, match=message):
        ra.corpus_scores(HYPOTHESES, REFERENCES, metrics)


@pytest.mark.parametrize(
    "function", [ra.corpus_bleu, ra.corpus_scores, ra.sentence_scores]
)
def test_unequal_numbers_of_lines_are_refused(function):
    for texts in ((HYPOTHESES, REFERENCES[:1]), ([], [])):
        with pytest.raises(ValueError, match="`hypotheses`.* same number of l"):
            function(*texts)
    with pytest.raises(TypeError, match="`hypotheses` must be a list of str"):
        function("a string", REFERENCES)


def test_second_reference_is_used():
    hypotheses = ["Ein Mann fährt mit dem Rad.", "Zwei Hunde spielen."]
    first = ["Ein Herr ist auf dem Fahrrad.", "Da sind Hunde."]
    for metric, score in ra.corpus_scores(
        hypotheses, [first, hypotheses], ["bleu", "chrf", "ter"]
    ).items():
        function = getattr(sacrebleu, f"corpus_{metric}")
        assert score.score == function(hypotheses, [first, hypotheses]).score
        assert "nrefs:2|" in score.signature
        (alone,) = ra.corpus_scores(hypotheses, first, [metric]).values()
        assert alone.score != pytest.approx(score.score)
    assert ra.sentence_scores(hypotheses, [first, hypotheses])["ter"] == [0, 0]
    with pytest.raises(ValueError, match=r"`references\[1\]`.*2 and 1"):
        ra.corpus_scores(hypotheses, [first, ["one"]])


# === Tokenizers ===


@pytest.mark.parametrize(
    ("line", "language", "tokenizer"),
    [
        ("我今天很高兴见到你。", None, "zh"),
        ("今日はいい天気ですね。", None, "char"),
        ("วันนี้อากาศดีมาก", None, "char"),
        ("오늘 날씨가 아주 좋네요.", None, "13a"),
        ("Ein Mann fährt mit dem Rad.", None, "13a"),
        ("今日は weather がいい", "ja-JP", "char"),
        ("The Wikipedia of 维基百科 is here", "zh", "zh"),
        # No four tokens on a line.
        ("12345", None, "char"),
    ],
)
def test_fitting_tokenizer_gives_full_bleu(line, language, tokenizer):
    assert fitting_tokenizer([line], language) == tokenizer
    score = ra.corpus_bleu([line], [line], tokenize=tokenizer)
    assert score.score == pytest.approx(100)


def test_unknown_tokenizer_is_refused():
    with pytest.raises(ValueError, match="tokenizer '13b'. Did you mean '13a'"):
        ra.corpus_bleu(HYPOTHESES, REFERENCES, tokenize="13b")


def test_missing_tokenizer_names_its_extra(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ra.InputError, match=r"pip install 'sacrebleu\[ja\]'"):
        ra.corpus_bleu(HYPOTHESES, REFERENCES, tokenize="ja-mecab")


# === BLEU by length ===

WORDS = [1, 12, 5, 5, 30, 12, 9, 2]
SOURCES = [" ".join(["word"] * number) for number in WORDS]
RIGHT = [f"Ein Mann fährt {line} Mal mit dem Rad." for line in range(8)]
WRONG = [text.replace("Mann", "Kind") for text in RIGHT]
MIXED = [pair[line % 2] for line, pair in enumerate(zip(RIGHT, WRONG))]


def test_buckets_are_scored_separately():
    scores = ra.bleu_by_length(SOURCES, MIXED, RIGHT, [5, 7, 12])
    # No source has 6 or 7 words.
    assert buckets_of(scores) == [
        (1, 5, 13 / 4, 4),
        (9, 12, 11, 3),
        (30, 30, 30, 1),
    ]
    for score, lines in zip(scores, ([0, 2, 3, 7], [1, 5, 6], [4])):
        texts = [[text[line] for line in lines] for text in (MIXED, RIGHT)]
        assert score.bleu == ra.corpus_bleu(*texts).score
    assert scores[2].bleu == pytest.approx(100)
    assert scores[1].bleu < 90


def test_one_bucket_scores_the_whole_text():
    lowered = [text.lower() for text in MIXED]
    for how in ({}, {"lowercase": True, "tokenize": "char"}):
        [score] = ra.bleu_by_length(SOURCES, lowered, RIGHT, [], **how)
        assert score.bleu == ra.corpus_bleu(lowered, RIGHT, **how).score


def test_buckets_have_about_equal_sizes_by_default(rng):
    lengths = rng.integers(3, 40, size=800)
    sources = [" ".join(["word"] * number) for number in lengths]
    texts = ["Das ist ein Satz."] * len(sources)
    scores = ra.bleu_by_length(sources, texts, texts)
    assert len(scores) == 8
    assert sum(score.num_sentences for score in scores) == 800
    assert all(60 < score.num_sentences < 140 for score in scores)
    for shorter, longer in zip(scores, scores[1:]):
        assert shorter.most < longer.least
    for number in (1, 3, 20):
        same = ra.bleu_by_length(*[texts[:number]] * 3)
        assert buckets_of(same) == [(4, 4, 4, number)]


def test_wrong_lengths_are_refused():
    with pytest.raises(ValueError, match="`sources` and.*7 and 8"):
        ra.bleu_by_length(SOURCES[1:], MIXED, RIGHT)
    with pytest.raises(ValueError, match=r"must rise.*Received: \[5, 5\]"):
        ra.bleu_by_length(SOURCES, MIXED, RIGHT, [5, 5])


# === Moses' tokenizer, as published for Multi30k ===

HOW = {"lowercase": True, "tokenize": "moses-de"}
CUT = [
    'Ein "Mann" & eine Frau: z. B. am Rad-Weg.',
    "Zwei hunde spielen im T-Shirt d.h. im Schnee.",
]
CUT_REFERENCES = [
    'Ein "Mann" und eine Frau: z. B. am Rad-Weg.',
    "Zwei Hunde spielen im T-Shirt, d.h. im Schnee.",
]


def test_moses_scores_lowercased_tokenized_text():
    """Plain formula: lowercase, cut, and let sacreBLEU cut no more."""
    metric = sacrebleu.metrics.BLEU(tokenize="none")
    cutter = sacremoses.MosesTokenizer("de")
    hypotheses, references = (
        [
            cutter.tokenize(line.lower(), return_str=True, escape=False)
            for line in side
        ]
        for side in (CUT, CUT_REFERENCES)
    )
    expected = metric.corpus_score(hypotheses, [references]).score
    score = ra.corpus_bleu(CUT, CUT_REFERENCES, **HOW)
    assert 0 < expected < 100
    assert score.score == expected
    assert score.signature == (
        "nrefs:1|case:lc|eff:no|tok:moses-de-sacremoses-"
        f"{sacremoses.__version__}|smooth:exp|version:{sacrebleu.__version__}"
    )
    systems = {"first": CUT, "second": CUT_REFERENCES}
    first, second = ra.paired_bootstrap(
        systems, CUT_REFERENCES, ["bleu"], 40, **HOW
    )["bleu"]
    assert "tok:moses-de" in first.signature
    assert first.score == expected
    assert second.score == pytest.approx(100)


def test_moses_tokenizes_by_language():
    # French leaves the apostrophe to the article, German parts them.
    texts = ["l'arc de l'homme d'ici"], ["l ' arc de l ' homme d ' ici"]
    french, german = (
        ra.corpus_bleu(*texts, tokenize=f"moses-{language}").score
        for language in ("fr", "de")
    )
    assert french < german == pytest.approx(100)


def test_moses_needs_a_known_language_and_its_package(
    monkeypatch,
):
    message = "knows. Received: 'dd'.* Known: as, .*de, "
    with pytest.raises(ra.InputError, match=message):
        ra.corpus_bleu(CUT, CUT_REFERENCES, tokenize="moses-dd")
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(ra.InputError, match="`pip install sacremoses`"):
        ra.corpus_bleu(CUT, CUT_REFERENCES, **HOW)


@pytest.mark.skipif(not MULTI30K.is_dir(), reason="Multi30k is not here")
@pytest.mark.parametrize(
    ("language", "num_tokens"), [("de", 12103), ("fr", 13988)]
)
def test_references_have_the_published_token_count(language, num_tokens):
    path = MULTI30K / f"test_2016_flickr.{language}.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        references = file.read().removesuffix("\n").split("\n")
    assert len(references) == 1000
    metric = sacrebleu_metrics(["bleu"], True, f"moses-{language}")["bleu"]
    score = metric.corpus_score(references, [references])
    assert score.ref_len == score.sys_len == num_tokens
