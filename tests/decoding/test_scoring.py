"""Given translations: the sum of log-softmax, followed one pair at a time."""

import math

import numpy as np
import pytest

import relative_attention as ra
from tests.decoding.known_models import Letters
from tests.decoding.known_models import log_probs
from tests.decoding.known_models import make_model

VOCABULARY_SIZE = 28


@pytest.fixture(scope="module")
def model():
    # Dropout that was active would show.
    return make_model(21, vocabulary_size=VOCABULARY_SIZE, dropout=0.5)


@pytest.fixture
def translator(model):
    return ra.Translator(model, Letters(), max_extra_length=3)


# The longer side is now the source, now the target.
PAIRS = [
    ("abc", "xyz"),
    ("z", "hello world"),
    ("hello world", "z"),
    ("q" * 30, "rst"),
    ("rst", "q" * 30),
    ("abc", "xyy"),
    ("ab", ""),
    ("", "ab"),
]
SOURCES, TARGETS = (list(side) for side in zip(*PAIRS))


@pytest.mark.parametrize("batch_tokens", [1, 40, 8192])
def test_score_is_the_sum_of_log_softmax_in_the_order_of_the_pairs(
    model, batch_tokens
):
    translator = ra.Translator(
        model, Letters(), max_extra_length=3, batch_tokens=batch_tokens
    )
    scores = ra.score_translations(
        translator, SOURCES, TARGETS, return_tokens=True
    )
    for score, pair in zip(scores, PAIRS, strict=True):
        source, ids = ([*row, 1] for row in Letters().encode(pair))
        # Of one pair alone, unpadded.
        (steps,) = log_probs(model, source, [ids[:-1]])
        wanted = steps[np.arange(len(ids)), ids]
        assert score.num_tokens == len(ids)
        assert score.token_ids == tuple(ids)
        assert score.token_log_probabilities == pytest.approx(
            wanted, 1e-6, 1e-5
        )
        total = wanted.sum()
        assert score.log_probability == pytest.approx(total, 1e-6, 1e-5)


def batch_sizes(translator, sources, targets):
    counts = [0]
    ra.score_translations(translator, sources, targets, report=counts.append)
    return np.diff(counts).tolist()


def test_batches_keep_to_their_tokens_longest_first(model):
    translator = ra.Translator(model, Letters(), batch_tokens=24)
    # With the end of sentence 12, 8, 6, 4 and 3 positions the longer side.
    targets = ["x" * n for n in (3, 11, 3, 7, 5, 2, 2, 2)]
    sources = ["x"] * len(targets)
    # Two of 12 fit, four of 6, and the two that are left.
    assert batch_sizes(translator, sources, targets) == [2, 4, 2]
    assert batch_sizes(translator, targets, sources) == [2, 4, 2]


def test_perplexity_is_per_token():
    score = ra.TranslationScore(log_probability=-6.0, num_tokens=3)
    assert score.perplexity == pytest.approx(math.exp(2))
    certain = ra.TranslationScore(log_probability=0.0, num_tokens=1)
    # Of all tokens, not the mean of the sentences.
    assert ra.corpus_perplexity([score, certain]) == pytest.approx(
        math.exp(1.5)
    )
    assert ra.TranslationScore(-1e6, 1).perplexity == math.inf


def test_no_pairs_give_no_scores(translator):
    assert ra.score_translations(translator, [], []) == []
    with pytest.raises(ValueError, match="`scores` must hold at least one"):
        ra.corpus_perplexity([])


@pytest.mark.parametrize(
    ("side", "longest"), [("sources", 4), ("targets", 4 + 3)]
)
def test_sentence_over_the_limit_is_refused_and_named(side, longest, model):
    translator = ra.Translator(
        model, Letters(), max_source_length=4, max_extra_length=3
    )
    pairs = {"sources": ["a"] * 12, "targets": ["a"] * 12}
    # The end of sentence counts.
    pairs[side][4] = "a" * (longest - 1)
    assert len(ra.score_translations(translator, **pairs)) == 12
    pairs[side][5:] = ["a" * longest] * 7
    with pytest.raises(ra.InputError) as raised:
        ra.score_translations(translator, **pairs)
    message = str(raised.value)
    assert f"`{side}` must have at most {longest} tokens" in message
    assert f"{longest + 1} tokens on line 6;" in message
    assert "line 6, 7, 8, 9, 10 and 2 more." in message


def test_unequal_numbers_are_refused(translator):
    with pytest.raises(ValueError, match="Received: 2 and 1"):
        ra.score_translations(translator, ["a", "b"], ["a"])
