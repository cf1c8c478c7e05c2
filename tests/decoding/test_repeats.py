"""Translations without repeats: n-grams that are forbidden."""

import numpy as np
import pytest
import tensorflow as tf

import relative_attention as ra
from tests.decoding.known_models import Letters
from tests.decoding.known_models import arrays
from tests.decoding.known_models import make_model
from tests.decoding.known_models import until_end


def ngrams(ids, size):
    return [tuple(ids[i : i + size]) for i in range(len(ids) - size + 1)]


class Pairs:
    """A model whose next token depends on the last and on the first source.

    The graph of a search takes half as long to make as with a Transformer.
    """

    def __init__(self):
        rng = np.random.default_rng(5)
        self.logits = rng.normal(0, 3, (13, 13, 13)).astype("float32")
        # Pads.
        self.logits[..., 0] = -1e9

    def start_cache(self, source_token_ids):
        return source_token_ids[:, :1]

    def decode_step(self, token_ids, cache, position, ancestors=None):
        first = tf.broadcast_to(cache, tf.shape(token_ids))
        pairs = tf.stack([first, token_ids], axis=-1)
        return tf.gather_nd(self.logits, pairs), cache


def best_free_of_repeats(model, source, size, length):
    """Greedy search that looks at every continuation by itself."""
    ids = []
    while len(ids) < length and ids[-1:] != [1]:
        last = ids[-1] if ids else 0
        for token in np.argsort(-model.logits[source[0], last]):
            longer = ngrams([*ids, int(token)], size)
            if len(set(longer)) == len(longer):
                ids.append(int(token))
                break
    return ids


SOURCES = [[5, 6, 7, 1, 0, 0], [3, 1, 0, 0, 0, 0], [8, 8, 9, 10, 3, 1]]


def large(*values):
    return pytest.param(*values, marks=pytest.mark.large)


@pytest.mark.parametrize("size", [2, large(1), large(3)])
def test_greedy_search_takes_the_best_token_that_repeats_nothing(size):
    model = Pairs()
    arguments = {"num_beams": 1, "max_extra_length": 9}
    found, free = (
        arrays(
            ra.beam_search(model, SOURCES, no_repeat_ngram=some, **arguments)
        )["token_ids"]
        for some in (size, 0)
    )
    assert found.tolist() != free.tolist()
    for row, source in zip(found[:, 0], SOURCES):
        source = [token for token in source if token]
        ids = np.trim_zeros(row, "b").tolist()
        length = len(source) + 9
        assert ids == best_free_of_repeats(model, source, size, length)


def search(size, num_beams):
    return arrays(
        ra.beam_search(
            Pairs(),
            SOURCES,
            num_beams=num_beams,
            num_results=num_beams,
            no_repeat_ngram=size,
            max_extra_length=12,
            min_length=9,
        )
    )


@pytest.mark.parametrize(
    "num_beams, sizes", [(4, [2]), large(4, [1, 4]), large(1, [1, 2, 4])]
)
def test_no_beam_repeats_an_ngram(num_beams, sizes):
    for size in sizes:
        for row in np.concatenate(search(size, num_beams)["token_ids"]):
            ids = until_end(row)
            assert len(ids) >= 9
            assert len(set(ngrams(ids, size))) == len(ngrams(ids, size))


@pytest.mark.large
@pytest.mark.parametrize("num_beams", [1, 4])
def test_ngrams_longer_than_a_translation_change_nothing(num_beams):
    long, free = search(30, num_beams), search(0, num_beams)
    np.testing.assert_array_equal(long["token_ids"], free["token_ids"])
    np.testing.assert_allclose(long["scores"], free["scores"], atol=1e-5)


def test_prefix_may_repeat_itself():
    prefix = np.array([[4, 4, 4, 4, 4], [7, 0, 0, 0, 0], [0, 0, 0, 0, 0]])
    found = arrays(
        ra.beam_search(
            Pairs(), SOURCES, target_prefix=prefix, no_repeat_ngram=2
        )
    )
    first, second, _ = found["token_ids"][:, 0]
    assert first[:5].tolist() == [4] * 5 and first[5] != 4
    assert second[0] == 7


@pytest.fixture
def model():
    return make_model(5)


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
