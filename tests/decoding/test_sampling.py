"""Draws: what decides them, and how often each token falls."""

import numpy as np
import pytest

import relative_attention as ra
from tests.decoding.known_models import SENTENCES
from tests.decoding.known_models import Chain
from tests.decoding.known_models import log_probs
from tests.decoding.known_models import padded

# Tests of what is the same as a graph ask for `as_graph`.
pytestmark = pytest.mark.usefixtures("eagerly")

ROWS = padded(SENTENCES)


def draw(model, rows, num_results=5, **arguments):
    """Ids `(B, R, T)` and scores `(B, R)` as arrays, of one seed."""
    settings = {"seed": 7, "max_length": 9, **arguments}
    results = ra.sample(model, rows, num_results=num_results, **settings)
    assert set(results) == {"token_ids", "scores"}
    return np.asarray(results["token_ids"]), np.asarray(results["scores"])


def as_lists(token_ids):
    """Ids of each draw, however far they are padded."""
    return [[np.trim_zeros(row, "b").tolist() for row in r] for r in token_ids]


def assert_same(results, others):
    assert as_lists(results[0]) == as_lists(others[0])
    np.testing.assert_allclose(results[1], others[1], atol=1e-4)


# === What decides a draw ===


@pytest.fixture(scope="module")
def drawn(peaked_model):
    """Five draws of each sentence, as a graph."""
    return draw(peaked_model, ROWS)


def test_seed_decides_the_draws(peaked_model, drawn, as_graph):
    assert_same(draw(peaked_model, ROWS), drawn)
    for draws in as_lists(drawn[0]):
        assert len(set(map(tuple, draws))) > 3
    others = [as_lists(drawn[0])]
    for seed in (8, None, None):
        ids = as_lists(draw(peaked_model, ROWS, seed=seed)[0])
        assert ids not in others
        others.append(ids)


@pytest.mark.parametrize(
    "others",
    [
        [SENTENCES[0]],
        [[9] * 11 + [1], SENTENCES[0], [1]],
        [SENTENCES[0]] * 2,
    ],
    ids=["alone", "padded_more", "twice"],
)
def test_draws_depend_on_the_sentence_alone(
    peaked_model, drawn, as_graph, others
):
    wanted = [array[:1] for array in drawn]
    found = draw(peaked_model, padded(others, extra=2))
    for index in range(len(others)):
        if others[index] == SENTENCES[0]:
            assert_same([array[index : index + 1] for array in found], wanted)


def test_longer_limit_continues_the_same_draws(peaked_model, drawn, as_graph):
    shorter, _ = draw(peaked_model, ROWS, max_length=3)
    assert as_lists(drawn[0][:, :, :3]) == as_lists(shorter)
    assert drawn[0].shape[2] > 3


def test_fewer_results_are_the_first_of_more(peaked_model, drawn):
    # These are drawn eagerly, those as a graph.
    fewer = draw(peaked_model, ROWS, num_results=2)
    assert fewer[1].shape == (3, 2)
    assert_same(fewer, [array[:, :2] for array in drawn])


@pytest.mark.large
@pytest.mark.parametrize("arguments", [{"top_p": 0.9}, {}], ids=str)
def test_draws_of_many_pieces_depend_on_the_sentence_alone(as_graph, arguments):
    num_pieces = 8000
    model = ra.Transformer.from_preset(
        "transformer_tiny_relative",
        vocabulary_size=num_pieces,
        num_encoder_layers=1,
        num_decoder_layers=1,
        hidden_dim=16,
        intermediate_dim=16,
        num_heads=2,
    )
    rng = np.random.default_rng(4)
    for weight in model.trainable_weights:
        if "embeddings" in weight.path:
            weight.assign(rng.normal(0, 0.25, weight.shape))
    rows = rng.integers(2, num_pieces, (24, 6))
    rows[:, -1] = 1

    def drawn(rows):
        lengths = {"max_length": 12, "min_length": 12}
        return draw(model, rows, 10, seed=1, **lengths, **arguments)[0]

    together = drawn(rows)
    wider = np.pad(rows, ((0, 0), (0, 3)))
    apart = np.concatenate(
        [drawn(rows[:1]), drawn(wider[1:8]), drawn(rows[8:])]
    )
    np.testing.assert_array_equal(apart, together)
    # Draws that differ, or nothing could be told.
    assert len(np.unique(together.reshape(-1, 12), axis=0)) > 230


# === How often each token falls ===


FIRST = {2: 0.4, 3: 0.3, 4: 0.2, 5: 0.1}
SECOND = {1: 0.25, 6: 0.75}
CHAIN = {0: FIRST, **dict.fromkeys(FIRST, SECOND), 6: {1: 1.0}}
NUM_DRAWS = 4000


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_frequencies_are_powers_of_the_probabilities(temperature):
    """By chi-squared: by chance it fails once in some ten thousand."""
    (token_ids,), _ = draw(
        Chain(CHAIN), [[7, 8, 1]], NUM_DRAWS, temperature=temperature
    )
    sequences, counts = np.unique(token_ids, axis=0, return_counts=True)
    counts = {
        tuple(np.trim_zeros(row, "b").tolist()): number
        for row, number in zip(sequences, counts.tolist())
    }
    wanted = {
        (first, second, *[1][: second == 6]): (p * q) ** (1 / temperature)
        for first, p in FIRST.items()
        for second, q in SECOND.items()
    }
    # At 2 what is next to impossible becomes a millionth, each of 12.
    counts = {ids: counts[ids] for ids in wanted}
    assert sum(counts.values()) > NUM_DRAWS - 5
    total = sum(wanted.values())
    distance = 0.0
    for ids, weight in wanted.items():
        number = NUM_DRAWS * weight / total
        distance += (counts[ids] - number) ** 2 / number
    freedom = len(counts) - 1
    assert distance < freedom + 4 * np.sqrt(2 * freedom) + 6


ONE_TOKEN = {0: dict(zip((2, 3, 4, 5), (0.2, 0.1, 0.4, 0.3)))}
ONE_TOKEN |= dict.fromkeys((2, 3, 4, 5), {1: 1.0})


@pytest.mark.parametrize(
    "arguments, left",
    [
        ({}, [2, 3, 4, 5]),
        ({"top_k": 1}, [4]),
        ({"top_k": 3}, [2, 4, 5]),
        ({"top_k": 9}, [2, 3, 4, 5]),
        # The fewest whose probabilities reach it.
        ({"top_p": 0.39}, [4]),
        ({"top_p": 0.41}, [4, 5]),
        ({"top_p": 0.8}, [2, 4, 5]),
        ({"top_p": 1.0}, [2, 3, 4, 5]),
        # Of two they are 0.57 and 0.43; of three 0.44, 0.33 and 0.22.
        ({"top_k": 2, "top_p": 0.55}, [4]),
        ({"top_k": 3, "top_p": 0.76}, [4, 5]),
    ],
    ids=str,
)
def test_only_the_likeliest_are_drawn(arguments, left):
    # That one of a share of 0.1 is never drawn has a probability of e^-31.
    (ids,), _ = draw(Chain(ONE_TOKEN), [[7, 1]], 300, **arguments)
    assert {*ids[:, 0].tolist()} == {*left}


def test_draws_and_sentences_are_independent():
    first, second = draw(Chain(ONE_TOKEN), [[7, 1], [8, 1]], 4000)[0][..., 0]
    for one, other in ((first, second), (first[1:], first[:-1])):
        # The sum of the squares of the probabilities, five standard errors.
        share = (one == other).mean()
        assert abs(share - 0.3) < 5 * np.sqrt(0.3 * 0.7 / len(one))


@pytest.mark.parametrize("arguments", [{}, {"top_k": 5, "top_p": 0.9}])
def test_lowest_temperatures_draw_the_likeliest(arguments):
    for temperature in (1e-300, 1e-20):
        ids, _ = draw(
            Chain(CHAIN), [[7, 8, 1]], 50, temperature=temperature, **arguments
        )
        assert (ids == [2, 6, 1]).all()


@pytest.mark.parametrize("temperature", [1e7, np.inf])
@pytest.mark.parametrize("arguments", [{}, {"top_k": 17, "top_p": 1.0}])
def test_highest_temperatures_draw_uniformly_among_the_allowed(
    temperature, arguments
):
    (ids,), _ = draw(
        Chain(CHAIN),
        [[7, 8, 1]],
        800,
        max_length=4,
        temperature=temperature,
        target_prefix=[[9, 12]],
        min_length=4,
        **arguments,
    )
    assert (ids[:, :2] == [9, 12]).all()
    # Any of 17 but the end of sentence, 50 times each, give or take five
    # standard deviations.
    counts = np.bincount(ids[:, 2], minlength=17)
    assert counts[1] == 0
    assert (abs(np.delete(counts, 1) - 50) < 5 * np.sqrt(50)).all()


@pytest.mark.parametrize(
    "arguments", [{"temperature": 3.0}, {"top_k": 4, "top_p": 0.9}], ids=str
)
def test_scores_are_log_probabilities_of_the_model(peaked_model, arguments):
    token_ids, scores = draw(
        peaked_model, ROWS, num_results=3, max_length=6, **arguments
    )
    ends = set()
    for sentence, draws, row_scores in zip(SENTENCES, token_ids, scores):
        for row, score in zip(draws.tolist(), row_scores):
            ids = row[: row.index(1) + 1] if 1 in row else row
            (steps,) = log_probs(peaked_model, sentence, [ids[:-1]])
            wanted = steps[np.arange(len(ids)), ids].sum()
            assert abs(score - wanted) < 1e-3
            # It was cut at the limit or ends and is padded.
            assert 1 in ids or len(ids) == 6
            assert not any(row[len(ids) :])
            ends.add(len(ids))
    assert len(ends) > 2
