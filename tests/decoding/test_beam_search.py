"""Beam search: probabilities known by hand, and a wide beam as brute force."""

import itertools
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

import relative_attention as ra
from relative_attention.decoding.beam_search import beam_search_loop
from relative_attention.decoding.beam_search import length_penalty_of
from relative_attention.decoding.beam_state import FixedColumns
from relative_attention.decoding.constraints import make_constraints

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


def test_penalty_is_that_of_the_paper():
    # (5 + |Y|)^alpha / (5 + 1)^alpha: of 1 token 1, of 7 tokens 2^alpha.
    lengths = np.array([1, 7, 19], np.int32)
    np.testing.assert_allclose(length_penalty_of(lengths, 1.0), [1, 2, 4])
    np.testing.assert_allclose(
        length_penalty_of(lengths, 0.5), [1, 2**0.5, 2], rtol=1e-6
    )
    np.testing.assert_array_equal(length_penalty_of(lengths, 0.0), [1, 1, 1])


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


@pytest.mark.parametrize("alpha", [0.0, 1.5])
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


# === Results ===


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


@pytest.mark.only_on("tensorflow", reason="JAX compiles each step of the other")
@pytest.mark.parametrize(
    ("num_beams", "constraints"),
    [
        (3, {}),
        (1, {}),
        (2, {"target_prefix": [[4, 6], [0, 0], [8, 0]], "min_length": 3}),
    ],
    ids=["beams", "greedy", "constraints"],
)
def test_results_are_those_of_growing_columns(
    peaked_model, padded, num_beams, constraints
):
    sources = padded([[5, 3, 9, 1], [7, 1], [2, 2, 1]])
    inputs = (
        make_constraints(sources, max_extra_length=3, **constraints),
        keras.ops.convert_to_tensor(0.6, "float32"),
    )
    expected = beam_search_loop(peaked_model, inputs, num_beams, num_beams)
    found = beam_search_loop(
        peaked_model, inputs, num_beams, num_beams, FixedColumns(11)
    )
    width = expected["token_ids"].shape[2]
    assert int(found["num_steps"]) == width
    np.testing.assert_array_equal(
        found["token_ids"][..., :width], expected["token_ids"]
    )
    np.testing.assert_allclose(
        found["scores"], expected["scores"], rtol=1e-5, atol=1e-5
    )


# === Arguments ===


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


@pytest.mark.parametrize("search", [ra.beam_search, ra.sample])
@pytest.mark.parametrize("limit", [2**31 - 1, 10**30])
def test_limits_beyond_any_sentence_are_no_limit(chain, search, limit):
    model = chain({0: {2: 1.0}, 2: {6: 1.0}, 6: {1: 1.0}})
    for arguments in (
        {"max_extra_length": limit},
        {"max_extra_length": limit, "max_length": limit},
        {"max_extra_length": 5, "max_length": limit},
    ):
        results = search(model, SOURCE, **arguments)
        assert np.asarray(results["token_ids"]).tolist() == [[[2, 6, 1]]]
    results = search(model, SOURCE, max_extra_length=1, min_length=limit)
    assert np.asarray(results["token_ids"]).shape == (1, 1, 5)
    results = search(model, SOURCE, max_extra_length=-limit)
    assert np.asarray(results["token_ids"]).shape == (1, 1, 0)


@pytest.mark.parametrize(
    ("search", "name", "value"),
    [
        (ra.beam_search, "length_penalty", np.nan),
        (ra.beam_search, "length_penalty", np.inf),
        (ra.beam_search, "length_penalty", "0.6"),
        (ra.sample, "temperature", np.nan),
        (ra.sample, "temperature", "1"),
        (ra.sample, "top_p", np.nan),
        (ra.sample, "top_k", 1.5),
        (ra.sample, "seed", 0.5),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_setting_that_is_no_number_is_named(chain, search, name, value):
    with pytest.raises(ValueError, match=f"^`{name}` must be "):
        search(chain(TWO_WAYS), SOURCE, **{name: value})


def test_beam_too_wide_for_a_step_is_refused(peaked_model):
    with pytest.raises(ValueError, match="`num_beams` must be at most 10,3"):
        ra.beam_search(peaked_model, SOURCE, num_beams=10**8)
    with pytest.raises(ValueError, match="with a vocabulary of 13:"):
        ra.Translator(peaked_model, None, num_beams=10**8)
