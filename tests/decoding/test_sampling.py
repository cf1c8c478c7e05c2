"""Draws: what decides them, and how often each token falls."""

import numpy as np
import pytest
import tensorflow as tf

import relative_attention as ra
from relative_attention.decoding.sampling import draw_tokens
from relative_attention.decoding.sampling import gumbel_noise
from relative_attention.decoding.sampling import noise_keys

# Tests of what is the same as a graph ask for `as_graph`.
pytestmark = pytest.mark.usefixtures("eagerly")


SENTENCES = [
    [5, 11, 2, 8, 1],
    [3, 1],
    [12, 4, 4, 9, 7, 6, 1],
]


def draw(model, rows, num_results=5, **arguments):
    """Ids `(B, R, T)` and scores `(B, R)` as arrays, of one seed."""
    results = ra.sample(
        model,
        rows,
        num_results=num_results,
        **{"seed": 7, "max_length": 9, **arguments},
    )
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
def rows(padded):
    return padded(SENTENCES)


@pytest.fixture(scope="module")
def drawn(peaked_model, rows):
    """Five draws of each sentence, as a graph."""
    return draw(peaked_model, rows)


def test_same_seed_draws_the_same(peaked_model, rows, drawn, as_graph):
    assert_same(draw(peaked_model, rows), drawn)
    for draws in as_lists(drawn[0]):
        assert len(set(map(tuple, draws))) > 3


def test_other_seed_draws_others(peaked_model, rows, drawn, as_graph):
    draws = [
        as_lists(draw(peaked_model, rows, seed=seed)[0])
        for seed in (8, None, None)
    ]
    for number, ids in enumerate(draws):
        assert ids not in [as_lists(drawn[0]), *draws[:number]]


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([[5, 11, 2, 8, 1]], id="alone"),
        pytest.param([[3, 1], [5, 11, 2, 8, 1]], id="second"),
        pytest.param([[9] * 11 + [1], [5, 11, 2, 8, 1], [1]], id="padded_more"),
        pytest.param([[5, 11, 2, 8, 1]] * 2, id="twice"),
    ],
)
def test_draws_depend_on_the_sentence_alone(
    peaked_model, padded, drawn, as_graph, others
):
    wanted = [array[:1] for array in drawn]
    found = draw(peaked_model, padded(others, extra=2))
    for index in range(len(others)):
        if others[index] == SENTENCES[0]:
            assert_same([array[index : index + 1] for array in found], wanted)


def test_longer_limit_goes_on_with_the_same_draws(
    peaked_model, rows, drawn, as_graph
):
    shorter, _ = draw(peaked_model, rows, max_length=3)
    assert as_lists(drawn[0][:, :, :3]) == as_lists(shorter)
    assert drawn[0].shape[2] > 3


def test_fewer_results_are_the_first_of_more(peaked_model, rows, drawn):
    # These are drawn eagerly, those as a graph.
    fewer = draw(peaked_model, rows, num_results=2)
    assert fewer[1].shape == (3, 2)
    assert_same(fewer, [array[:, :2] for array in drawn])


@pytest.mark.large
def test_draws_with_options_are_the_same_as_a_graph(
    peaked_model, rows, padded, request
):
    arguments = {
        "top_k": 6,
        "top_p": 0.9,
        "min_length": 4,
        "target_prefix": padded([[], [5, 6], [7]]),
    }
    eager = draw(peaked_model, rows, **arguments)
    request.getfixturevalue("as_graph")
    assert_same(draw(peaked_model, rows, **arguments), eager)


VOCABULARY_SIZE = 8000


@pytest.fixture(scope="module")
def many_pieces():
    model = ra.Transformer.from_preset(
        "transformer_tiny_relative",
        vocabulary_size=VOCABULARY_SIZE,
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
    return model


@pytest.mark.large
@pytest.mark.parametrize(
    "arguments",
    [{"top_p": 0.9}, {}, {"top_k": 500}],
    ids=str,
)
def test_draws_of_many_pieces_depend_on_the_sentence_alone(
    many_pieces, as_graph, arguments
):
    rng = np.random.default_rng(5)
    rows = rng.integers(2, VOCABULARY_SIZE, (24, 6))
    rows[:, -1] = 1

    def drawn(rows):
        lengths = {"max_length": 12, "min_length": 12}
        return draw(many_pieces, rows, 10, seed=1, **lengths, **arguments)[0]

    together = drawn(rows)
    padded = np.pad(rows, ((0, 0), (0, 3)))
    apart = np.concatenate(
        [drawn(rows[:1]), drawn(padded[1:8]), drawn(rows[8:])]
    )
    np.testing.assert_array_equal(apart, together)
    # Draws that differ, or nothing could be told.
    assert len(np.unique(together.reshape(-1, 12), axis=0)) > 230


def test_noise_is_gumbels_and_of_no_two_things_the_same():
    keys = noise_keys(np.array([[5, 1], [6, 1]]), 2, seed=3)
    noise = np.stack(
        [
            np.asarray(gumbel_noise(keys, position, 20_000))
            for position in (0, 1)
        ]
    )
    assert noise.shape == (2, 2, 2, 20_000)
    flat = noise.reshape(8, -1).astype(np.float64)
    correlations = np.corrcoef(
        np.concatenate([flat[:, 1:], flat[:, :-1]])
    ) - np.eye(16)
    # By chance 0.007 each, and of some hundred none is five times that.
    assert np.abs(correlations).max() < 5 / np.sqrt(20_000)
    for row in flat:
        # Of exp(-exp(-noise)), which is uniform, by Kolmogorov and Smirnov.
        uniform = np.sort(np.exp(-np.exp(-row)))
        expected = (np.arange(len(row)) + 0.5) / len(row)
        assert np.abs(uniform - expected).max() < 2.2 / np.sqrt(len(row))


# === How often each token falls ===


FIRST = {2: 0.4, 3: 0.3, 4: 0.2, 5: 0.1}


ROWS = {
    0: FIRST,
    **{first: {1: 0.25, 6: 0.75} for first in FIRST},
    6: {1: 1.0},
}


NUM_DRAWS = 4000


def count(chain, **arguments):
    """How many of the draws are each sequence, as a dict."""
    token_ids, _ = draw(
        chain(ROWS), np.array([[7, 8, 1]]), num_results=NUM_DRAWS, **arguments
    )
    sequences, counts = np.unique(token_ids[0], axis=0, return_counts=True)
    return {
        tuple(np.trim_zeros(row, "b").tolist()): number
        for row, number in zip(sequences, counts.tolist())
    }


def assert_distributed(counts, probabilities):
    """By chi-squared: by chance it fails once in some ten thousand."""
    assert set(counts) == set(probabilities)
    total = sum(probabilities.values())
    distance = 0.0
    for key, probability in probabilities.items():
        wanted = NUM_DRAWS * probability / total
        distance += (counts[key] - wanted) ** 2 / wanted
    freedom = len(counts) - 1
    assert distance < freedom + 4 * np.sqrt(2 * freedom) + 6


def sequences(first, second=((1, 0.25), (6, 0.75))):
    """Probabilities of whole translations, from those of their tokens."""
    whole = {}
    for token_id, probability in first.items():
        for following, conditional in second:
            ids = (token_id, 1) if following == 1 else (token_id, 6, 1)
            whole[ids] = probability * conditional
    return whole


def test_frequencies_are_the_probabilities(chain):
    assert_distributed(count(chain), sequences(FIRST))


def test_temperature_is_a_power_of_the_probabilities(chain):
    temperature = 2.0

    def tempered(probabilities):
        powers = {k: p ** (1 / temperature) for k, p in probabilities.items()}
        total = sum(powers.values())
        return {k: power / total for k, power in powers.items()}

    # At 2 what is next to impossible becomes a millionth, each of 12.
    wanted = sequences(
        tempered(FIRST), tuple(tempered({1: 0.25, 6: 0.75}).items())
    )
    counts = count(chain, temperature=temperature)
    counts = {ids: counts[ids] for ids in wanted}
    assert sum(counts.values()) > NUM_DRAWS - 5
    assert_distributed(counts, wanted)


LOGITS = tf.constant(np.log([[[0.2, 0.1, 0.4, 0.3]]]), tf.float32)


@pytest.mark.parametrize(
    "arguments, left",
    [
        ({}, [0, 1, 2, 3]),
        ({"top_k": 1}, [2]),
        ({"top_k": 3}, [0, 2, 3]),
        ({"top_k": 9}, [0, 1, 2, 3]),
        # The fewest whose probabilities reach it.
        ({"top_p": 0.01}, [2]),
        ({"top_p": 0.39}, [2]),
        ({"top_p": 0.41}, [2, 3]),
        ({"top_p": 0.8}, [0, 2, 3]),
        ({"top_p": 1.0}, [0, 1, 2, 3]),
        # Of two they are 0.57 and 0.43; of three 0.44, 0.33 and 0.22.
        ({"top_k": 2, "top_p": 0.55}, [2]),
        ({"top_k": 3, "top_p": 0.76}, [2, 3]),
    ],
    ids=str,
)
def test_only_the_likeliest_are_drawn(arguments, left):
    arguments = {"top_k": None, "top_p": None, **arguments}
    # Noise that would make each in turn the largest.
    drawn = {
        draw_tokens(LOGITS, tf.constant([[row]], tf.float32), **arguments)
        .numpy()
        .item()
        for row in 9 * np.eye(4)
    }
    assert drawn == {*left}


@pytest.mark.parametrize("temperature", [1e-300, 1e-20])
@pytest.mark.parametrize("arguments", [{}, {"top_k": 5, "top_p": 0.9}])
def test_lowest_temperatures_draw_the_likeliest(chain, temperature, arguments):
    ids, _ = draw(
        chain(ROWS), [[7, 8, 1]], 50, temperature=temperature, **arguments
    )
    assert (ids == [2, 6, 1]).all()


@pytest.mark.parametrize("temperature", [1e7, np.inf])
@pytest.mark.parametrize("arguments", [{}, {"top_k": 17, "top_p": 1.0}])
def test_highest_temperatures_draw_alike_among_the_allowed(
    chain, temperature, arguments
):
    (ids,), _ = draw(
        chain(ROWS),
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
    "arguments",
    [{"temperature": 3.0}, {"top_k": 4, "top_p": 0.9}],
    ids=str,
)
def test_scores_are_log_probabilities_of_the_model(
    peaked_model, rows, log_probability, arguments
):
    token_ids, scores = draw(
        peaked_model, rows, num_results=3, max_length=6, **arguments
    )
    assert scores.dtype == np.float32
    assert token_ids.dtype == np.int32
    ends = set()
    for sentence, draws, row_scores in zip(SENTENCES, token_ids, scores):
        for row, score in zip(draws.tolist(), row_scores):
            ids = row[: row.index(1) + 1] if 1 in row else row
            wanted = log_probability(peaked_model, sentence, ids)
            assert abs(score - wanted) < 1e-3
            # It was cut at the limit or ends and is padded.
            assert 1 in ids or len(ids) == 6
            assert not any(row[len(ids) :])
            ends.add(len(ids))
    assert len(ends) > 2


# === Arguments ===


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"num_results": 0}, "`num_results` must be at least 1."),
        (
            {"temperature": 0},
            "`temperature` must be above 0 (`beam_search` with one beam takes "
            "the likeliest token).",
        ),
        ({"temperature": -0.5}, "`temperature` must be above 0"),
        ({"top_k": 0}, "`top_k` must be at least 1."),
        ({"top_p": 0.0}, "`top_p` must be in (0, 1]."),
        ({"top_p": 1.5}, "`top_p` must be in (0, 1]."),
        ({"seed": -3}, "`seed` must be at least 0."),
        ({"max_length": -1}, "`max_length` must be at least 0."),
        ({"min_length": -2}, "`min_length` must be at least 0."),
    ],
    ids=str,
)
def test_error_says_what_is_out_of_range(chain, arguments, message):
    with pytest.raises(ValueError) as raised:
        ra.sample(chain(ROWS), np.array([[7, 1]]), **arguments)
    ((name, value),) = arguments.items()
    assert message in str(raised.value)
    assert f"Received: {name}={value}." in str(raised.value)
