"""Beam search: probabilities known by hand, and a wide beam as brute force."""

import itertools
import math

import numpy as np
import pytest
import tensorflow as tf

import relative_attention as ra

# The test of what is the same as a graph asks for `as_graph`.
pytestmark = pytest.mark.usefixtures("eagerly")

SOURCE = np.array([[7, 8, 9, 1]])
# One long way of probability 0.45 and a short one of 0.55.
TWO_WAYS = {
    0: {2: 0.55, 3: 0.45},
    2: {1: 1.0},
    3: {4: 1.0},
    4: {5: 1.0},
    5: {6: 1.0},
    6: {1: 1.0},
}
ENDLESS = {0: {2: 0.7, 3: 0.3}, 2: {2: 0.9, 3: 0.1}, 3: {3: 1.0}}


def search(model, rows, **arguments):
    """Ids `(B, num_results, T)` and scores as numpy arrays."""
    results = ra.beam_search(model, rows, **arguments)
    assert set(results) == {"token_ids", "scores"}
    return np.asarray(results["token_ids"]), np.asarray(results["scores"])


def assert_results_are(token_ids, scores, hypotheses):
    """One sentence's results are these `(score, ids)`."""
    assert len(token_ids) == len(hypotheses)
    for row, score, (wanted_score, wanted_ids) in zip(
        token_ids, scores, hypotheses
    ):
        padding = [0] * (len(row) - len(wanted_ids))
        assert row.tolist() == [*wanted_ids, *padding]
        assert abs(score - wanted_score) < 1e-4


# === Scores ===


@pytest.mark.parametrize(
    "alpha, ids, probability",
    [(0.0, [2, 1], 0.55), (1.0, [3, 4, 5, 6, 1], 0.45)],
    ids=["probability_alone", "longer_is_better"],
)
def test_length_penalty_decides(chain, penalty, alpha, ids, probability):
    (token_ids,), (scores,) = search(
        chain(TWO_WAYS), SOURCE, num_beams=2, length_penalty=alpha
    )
    wanted = math.log(probability) / penalty(len(ids), alpha)
    assert_results_are(token_ids, scores, [(wanted, ids)])


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
def test_wide_beam_is_brute_force(chain, penalty, rng, alpha):
    # Of 5 tokens 4 go on, in 3 steps: no more than 16 beams.
    table = rng.dirichlet(np.full(5, 0.5), 5)
    model = chain(
        {last: dict(enumerate(row)) for last, row in enumerate(table)}, 5
    )
    everything = []
    for length in (1, 2, 3):
        for start in itertools.product([0, 2, 3, 4], repeat=length - 1):
            ids = [*start, 1]
            total = np.log(table[[0, *start], ids]).sum()
            everything.append((total / penalty(length, alpha), ids))
    assert len(everything) == 1 + 4 + 16
    (token_ids,), (scores,) = search(
        model,
        [[3, 1]],
        num_beams=16,
        num_results=6,
        length_penalty=alpha,
        max_extra_length=1,
    )
    best = sorted(everything, reverse=True)[:6]
    assert len({len(ids) for _, ids in best}) > 1
    assert_results_are(token_ids, scores, best)


def test_greedy_search_misses_what_two_beams_find(chain):
    model = chain(
        {
            0: {2: 0.6, 3: 0.4},
            2: {4: 0.5, 5: 0.5},
            3: {1: 1.0},
            4: {1: 1.0},
            5: {1: 1.0},
        }
    )
    (greedy,), _ = search(model, SOURCE, num_beams=1)
    assert greedy[0, 0] == 2
    (token_ids,), (scores,) = search(
        model, SOURCE, num_beams=2, length_penalty=0.0
    )
    assert_results_are(token_ids, scores, [(math.log(0.4), [3, 1])])


def test_search_ends_when_nothing_can_overtake(chain):
    # After the second step the rest of the way is worth 1e-12.
    model = chain({0: {2: 0.9, 3: 0.1}, 2: {1: 1.0}, 3: {3: 1e-3, 1: 1e-3}})
    search(model, SOURCE, num_beams=2, max_extra_length=50)
    assert len(model.sources) < 6


def test_padding_id_within_a_hypothesis_counts(chain):
    # Id 0 is a token like any other to the search.
    model = chain({0: {2: 1.0}, 2: {4: 1.0}, 4: {1: 1.0}})
    (token_ids,), (scores,) = search(model, SOURCE, num_beams=1)
    assert_results_are(token_ids, scores, [(0.0, [2, 4, 1])])


# === Limits ===


@pytest.mark.parametrize("num_beams", [1, 3])
def test_beams_are_given_when_none_ends(chain, padded, num_beams):
    token_ids, scores = search(
        chain(ENDLESS),
        padded([[7, 1], [7, 8, 9, 1], [1]]),
        num_beams=num_beams,
        max_extra_length=3,
    )
    for (row,), (score,), length in zip(token_ids, scores, (2, 4, 1)):
        limit = length + 3
        # Not divided by any penalty.
        wanted = math.log(0.7) + (limit - 1) * math.log(0.9)
        assert_results_are([row], [score], [(wanted, [2] * limit)])


def test_beams_are_the_best_when_several_results(chain):
    (token_ids,), (scores,) = search(
        chain(ENDLESS), SOURCE, num_beams=3, num_results=3, max_extra_length=0
    )
    wanted = [
        (math.log(0.7 * 0.9**3), [2, 2, 2, 2]),
        (math.log(0.3), [3, 3, 3, 3]),
        (math.log(0.7 * 0.1), [2, 3, 3, 3]),
    ]
    assert_results_are(token_ids, scores, wanted)


@pytest.mark.parametrize("max_extra_length", [0, 2])
def test_limit_is_that_of_each_sentence(chain, padded, max_extra_length):
    # It could end at any step, but would rather not.
    model = chain({0: {2: 1.0}, 2: {2: 0.9, 1: 0.1}})
    lengths = (2, 5, 1)
    token_ids, scores = search(
        model,
        padded([[7] * (length - 1) + [1] for length in lengths]),
        num_beams=2,
        length_penalty=0.0,
        max_extra_length=max_extra_length,
    )
    for (row,), (score,), length in zip(token_ids, scores, lengths):
        limit = length + max_extra_length
        if limit == 1:
            wanted = (0.0, [2])
        else:
            # Every end is worth the same 0.1, less what came before it.
            wanted = (math.log(0.1), [2, 1])
        assert_results_are([row], [score], [wanted])
        assert np.count_nonzero(row) <= limit


@pytest.mark.parametrize(
    "max_extra_length, max_length, lengths",
    [
        pytest.param(3, None, [7, 4], id="extra"),
        pytest.param(3, 5, [5, 4], id="both"),
        pytest.param(3, 0, [0, 0], id="none"),
        pytest.param(-2, None, [2, 0], id="shorter_than_the_source"),
    ],
)
def test_endless_translation_has_its_longest_length(
    chain, padded, max_extra_length, max_length, lengths
):
    token_ids, _ = search(
        chain({0: {2: 1.0}, 2: {2: 1.0}}),
        padded([[7, 7, 7, 1], [1]]),
        num_beams=2,
        max_extra_length=max_extra_length,
        max_length=max_length,
    )
    found = np.count_nonzero(token_ids[:, 0], axis=-1)
    np.testing.assert_array_equal(found, lengths)


def test_end_at_the_limit_counts(chain):
    model = chain({0: {2: 1.0}, 2: {3: 1.0}, 3: {4: 1.0}, 4: {1: 1.0}})
    (token_ids,), (scores,) = search(
        model, SOURCE, num_beams=2, max_extra_length=0
    )
    assert_results_are(token_ids, scores, [(0.0, [2, 3, 4, 1])])


# === Results ===


def test_empty_batch_gives_no_results(chain):
    token_ids, scores = search(
        chain(TWO_WAYS), np.zeros((0, 5), np.int32), num_beams=2, num_results=2
    )
    assert token_ids.shape[:2] == (0, 2)
    assert scores.shape == (0, 2)


@pytest.mark.parametrize("vocabulary_size", [3, 17])
def test_row_ends_once_or_is_empty_when_results_are_missing(
    chain, vocabulary_size
):
    # Fewer hypotheses can end within the limit than results are asked for.
    model = chain(
        {0: {2: 0.4, 1: 0.6}, 1: {1: 1.0}, 2: {1: 1.0}}, vocabulary_size
    )
    (token_ids,), (scores,) = search(
        model,
        np.array([[2, 1]]),
        num_beams=8,
        num_results=8,
        max_extra_length=0,
    )
    assert_results_are(token_ids[:1], scores[:1], [(math.log(0.6), [1])])
    for row in token_ids.tolist():
        num_ends = row.count(1)
        assert num_ends <= 1
        assert num_ends == 1 or not any(row)
        assert not any(row[row.index(1) + 1 :] if num_ends else row)


def test_fewer_results_are_the_first_of_more(chain):
    # It may end from everywhere, so that four ways end.
    model = chain({i: {1: 0.3, 2: 0.4, 3: 0.3} for i in (0, 2, 3)})
    sources = [[7, 8, 1], [7, 1, 0]]
    more = search(model, sources, num_beams=4, num_results=4)
    assert (np.diff(more[1], axis=1) <= 0).all()
    for rows in more[0].tolist():
        assert len(set(map(tuple, rows))) == 4
    for num_results in (1, 2):
        ids, scores = search(
            model, sources, num_beams=4, num_results=num_results
        )
        assert (ids.dtype, scores.dtype) == (np.int32, np.float32)
        assert scores.shape == ids.shape[:2] == (2, num_results)
        width = ids.shape[2]
        np.testing.assert_array_equal(ids, more[0][:, :num_results, :width])
        np.testing.assert_allclose(scores, more[1][:, :num_results], rtol=1e-6)


@pytest.mark.parametrize(
    "convert",
    [
        pytest.param(np.ndarray.tolist, id="lists"),
        pytest.param(lambda rows: rows.astype(np.int64), id="int64"),
        pytest.param(lambda rows: rows.astype(np.uint16), id="uint16"),
        pytest.param(lambda rows: tf.constant(rows, tf.int64), id="tensor"),
    ],
)
def test_source_may_be_of_any_int_type(chain, convert):
    model = chain(ENDLESS)
    token_ids, _ = search(model, convert(SOURCE), max_extra_length=0)
    assert token_ids.tolist() == [[[2, 2, 2, 2]]]
    assert model.sources[0] == SOURCE.tolist()


def test_model_that_is_no_transformer_is_searched_as_a_graph(
    chain, penalty, as_graph
):
    (token_ids,), (scores,) = search(
        chain(TWO_WAYS), SOURCE, num_beams=2, num_results=2
    )
    wanted = [
        (math.log(0.55) / penalty(2), [2, 1]),
        (math.log(0.45) / penalty(5), [3, 4, 5, 6, 1]),
    ]
    assert_results_are(token_ids, scores, wanted)


# === Errors ===


@pytest.mark.parametrize(
    "arguments, received",
    [
        pytest.param({"num_beams": 0}, "num_beams=0", id="no_beam"),
        pytest.param({"num_results": 0}, "num_results=0", id="no_result"),
        pytest.param(
            {"num_beams": 2, "num_results": 3},
            "num_results=3",
            id="more_results_than_beams",
        ),
        pytest.param({"max_length": -1}, "max_length=-1", id="length"),
        pytest.param({"min_length": -2}, "min_length=-2", id="least_length"),
        pytest.param(
            {"length_penalty": -0.5}, "length_penalty=-0.5", id="penalty"
        ),
    ],
)
def test_error_says_what_is_out_of_range(chain, arguments, received):
    with pytest.raises(ValueError) as raised:
        ra.beam_search(chain(TWO_WAYS), SOURCE, **arguments)
    message = str(raised.value)
    assert f"Received: {received}." in message
    assert f"`{received.split('=')[0]}`" in message
