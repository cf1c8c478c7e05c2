"""Translations without repeats: n-grams that are forbidden."""

import numpy as np
import pytest

import relative_attention as ra
from tests.decoding.known_models import Letters
from tests.decoding.known_models import arrays
from tests.decoding.known_models import make_model
from tests.decoding.known_models import until_end


def ngrams(ids, size):
    return [tuple(ids[i : i + size]) for i in range(len(ids) - size + 1)]


def best_free_of_repeats(model, source, size, length):
    """Greedy search that looks at every continuation by itself."""
    ids = []
    while len(ids) < length and ids[-1:] != [1]:
        inputs = np.array([[model.start_token_id, *ids]])
        logits = model(
            {
                "source_token_ids": np.array([source]),
                "target_token_ids": inputs,
            }
        )
        for token in np.argsort(-np.asarray(logits)[0, -1], kind="stable"):
            longer = ngrams([*ids, int(token)], size)
            if len(set(longer)) == len(longer):
                ids.append(int(token))
                break
    return ids


@pytest.fixture(scope="module")
def model():
    return make_model(5)


SOURCES = [[5, 6, 7, 1, 0, 0], [3, 1, 0, 0, 0, 0], [8, 8, 9, 10, 3, 1]]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_greedy_search_takes_the_best_token_that_repeats_nothing(model, size):
    found = arrays(
        ra.beam_search(
            model,
            SOURCES,
            num_beams=1,
            max_extra_length=9,
            no_repeat_ngram=size,
        )
    )
    free = arrays(
        ra.beam_search(model, SOURCES, num_beams=1, max_extra_length=9)
    )
    assert found["token_ids"].tolist() != free["token_ids"].tolist()
    for row, source in zip(found["token_ids"][:, 0], SOURCES):
        source = [token for token in source if token]
        ids = np.trim_zeros(row, "b").tolist()
        length = len(source) + 9
        assert ids == best_free_of_repeats(model, source, size, length)


@pytest.mark.parametrize("num_beams", [1, 4])
def test_no_beam_repeats_an_ngram(model, num_beams):
    arguments = {
        "num_beams": num_beams,
        "num_results": num_beams,
        "max_extra_length": 12,
        "min_length": 9,
    }
    for size in (1, 2, 4):
        found = arrays(
            ra.beam_search(model, SOURCES, no_repeat_ngram=size, **arguments)
        )
        for row in found["token_ids"].reshape(-1, found["token_ids"].shape[-1]):
            ids = until_end(row)
            assert len(set(ngrams(ids, size))) == len(ngrams(ids, size))
    long = arrays(
        ra.beam_search(model, SOURCES, no_repeat_ngram=30, **arguments)
    )
    free = arrays(ra.beam_search(model, SOURCES, **arguments))
    np.testing.assert_array_equal(long["token_ids"], free["token_ids"])
    np.testing.assert_allclose(long["scores"], free["scores"], atol=1e-5)


def test_prefix_may_repeat_itself(model):
    prefix = np.array([[4, 4, 4, 4, 4], [7, 0, 0, 0, 0], [0, 0, 0, 0, 0]])
    found = arrays(
        ra.beam_search(model, SOURCES, target_prefix=prefix, no_repeat_ngram=2)
    )
    first, second, _ = found["token_ids"][:, 0]
    assert first[:5].tolist() == [4] * 5 and first[5] != 4
    assert second[0] == 7


def test_scores_are_those_of_the_model_without_the_constraint(model):
    translator = ra.Translator(
        model, Letters(), no_repeat_ngram=2, max_extra_length=6
    )
    (found,) = translator.search(["cdefg"], length_penalty=0.0)
    assert found.token_ids[-1] == 1
    (score,) = ra.score_translations(translator, ["cdefg"], [found.text])
    assert found.score == pytest.approx(score.log_probability, abs=1e-4)


def test_wrong_size_is_refused(model):
    for value in (-1, 1.5):
        with pytest.raises(ValueError, match="`no_repeat_ngram` must be"):
            ra.beam_search(model, SOURCES, no_repeat_ngram=value)
    with pytest.raises(ValueError, match="`no_repeat_ngram` must be"):
        ra.Translator(model, Letters(), no_repeat_ngram=-1)
