"""Draws: what decides them, and how often each token falls."""

import keras
import numpy as np
import pytest

import relative_attention as ra

# Tests of what is the same as a graph ask for `as_graph`.
pytestmark = pytest.mark.usefixtures("eagerly")

SENTENCES = [
    [5, 11, 2, 8, 1],
    [3, 1],
    [12, 4, 4, 9, 7, 6, 1],
]


def padded(rows, extra=0):
    width = max(map(len, rows)) + extra
    return np.array(
        [[*row, *[0] * (width - len(row))] for row in rows], np.int32
    )


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


def test_same_seed_draws_the_same(peaked_model, as_graph):
    rows = padded(SENTENCES)
    assert_same(draw(peaked_model, rows), draw(peaked_model, rows))


def test_other_seed_draws_others(peaked_model, as_graph):
    rows = padded(SENTENCES)
    draws = [
        as_lists(draw(peaked_model, rows, seed=seed)[0]) for seed in (0, 1, 2)
    ]
    assert draws[0] != draws[1] != draws[2] != draws[0]


def test_no_seed_is_another_at_each_call(peaked_model, as_graph):
    rows = padded(SENTENCES)
    draws = [draw(peaked_model, rows, seed=None) for _ in range(2)]
    assert as_lists(draws[0][0]) != as_lists(draws[1][0])


def test_draws_of_a_sentence_differ(peaked_model):
    token_ids, _ = draw(peaked_model, padded(SENTENCES), min_length=6)
    for rows in as_lists(token_ids):
        assert len(set(map(tuple, rows))) > 3


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([[5, 11, 2, 8, 1]], id="alone"),
        pytest.param([[3, 1], [5, 11, 2, 8, 1]], id="second"),
        pytest.param([[9] * 11 + [1], [5, 11, 2, 8, 1], [1]], id="padded_more"),
        pytest.param([[5, 11, 2, 8, 1]] * 2, id="twice"),
    ],
)
def test_draws_depend_on_the_sentence_alone(peaked_model, as_graph, others):
    wanted = [array[:1] for array in draw(peaked_model, padded(SENTENCES))]
    found = draw(peaked_model, padded(others, extra=2), max_length=9)
    for place in range(len(others)):
        if others[place] == SENTENCES[0]:
            assert_same([array[place : place + 1] for array in found], wanted)


def test_longer_limit_goes_on_with_the_same_draws(peaked_model, as_graph):
    shorter, _ = draw(peaked_model, padded(SENTENCES), max_length=3)
    longer, _ = draw(peaked_model, padded(SENTENCES), max_length=9)
    assert as_lists(longer[:, :, :3]) == as_lists(shorter)
    assert longer.shape[2] > 3


@pytest.mark.parametrize("num_results", [1, 2])
def test_fewer_results_are_the_first_of_more(peaked_model, num_results):
    rows = padded(SENTENCES)
    more = draw(peaked_model, rows)
    fewer = draw(peaked_model, rows, num_results=num_results)
    assert fewer[1].shape == (3, num_results)
    assert_same(fewer, [array[:, :num_results] for array in more])


def test_draws_are_the_same_as_a_graph(peaked_model, request):
    rows = padded(SENTENCES)
    arguments = {
        "top_k": 6,
        "top_p": 0.9,
        "min_length": 4,
        "target_prefix": padded([[], [5, 6], [7]]),
    }
    eager = draw(peaked_model, rows, **arguments)
    request.getfixturevalue("as_graph")
    assert_same(draw(peaked_model, rows, **arguments), eager)


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


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_frequencies_are_the_probabilities(chain, seed):
    assert_distributed(count(chain, seed=seed), sequences(FIRST))


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_temperature_is_a_power_of_the_probabilities(chain, temperature):
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


@pytest.mark.parametrize(
    "arguments, kept, goes_on_only",
    [
        pytest.param({"top_k": 1}, [2], True, id="top_1"),
        pytest.param({"top_k": 2}, [2, 3], False, id="top_2"),
        pytest.param({"top_k": 3}, [2, 3, 4], False, id="top_3"),
        # The fewest whose probabilities reach it.
        pytest.param({"top_p": 0.01}, [2], True, id="top_p_least"),
        pytest.param({"top_p": 0.3}, [2], True, id="top_p_one"),
        pytest.param({"top_p": 0.65}, [2, 3], True, id="top_p_two"),
        pytest.param({"top_p": 0.8}, [2, 3, 4], False, id="top_p_three"),
        pytest.param({"top_p": 1.0}, [2, 3, 4, 5], False, id="top_p_all"),
        # Of two they are 0.57 and 0.43; of three 0.44, 0.33 and 0.22.
        pytest.param(
            {"top_k": 2, "top_p": 0.5}, [2], True, id="both_leave_one"
        ),
        pytest.param(
            {"top_k": 3, "top_p": 0.76}, [2, 3], False, id="both_leave_two"
        ),
        # Tempered first: 0.53, 0.30, 0.13 and 0.03.
        pytest.param(
            {"temperature": 0.5, "top_p": 0.5}, [2], True, id="tempered"
        ),
    ],
)
def test_only_the_likeliest_are_drawn(chain, arguments, kept, goes_on_only):
    second = ((6, 1.0),) if goes_on_only else ((1, 0.25), (6, 0.75))
    wanted = sequences({token_id: FIRST[token_id] for token_id in kept}, second)
    counts = count(chain, **arguments)
    if len(wanted) == 1:
        assert set(counts) == set(wanted)
    else:
        assert_distributed(counts, wanted)


def test_more_than_the_vocabulary_is_all_of_it(chain):
    assert_distributed(count(chain, top_k=1000), sequences(FIRST))


@pytest.mark.parametrize(
    "arguments", [{"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-3}], ids=str
)
def test_likeliest_token_is_that_of_greedy_search(peaked_model, arguments):
    rows = padded(SENTENCES)
    token_ids, scores = draw(peaked_model, rows, num_results=1, **arguments)
    greedy = ra.beam_search(
        peaked_model, rows, num_beams=1, length_penalty=0.0, max_length=9
    )
    assert_same(
        (token_ids, scores),
        (np.asarray(greedy["token_ids"]), np.asarray(greedy["scores"])),
    )


@pytest.mark.parametrize(
    "arguments",
    [{}, {"temperature": 3.0}, {"top_k": 4}, {"top_p": 0.7}],
    ids=str,
)
def test_scores_are_log_probabilities_of_the_model(
    peaked_model, log_probability, arguments
):
    token_ids, scores = draw(peaked_model, padded(SENTENCES), **arguments)
    assert scores.dtype == np.float32
    assert token_ids.dtype == np.int32
    ends = set()
    for sentence, rows, row_scores in zip(SENTENCES, token_ids, scores):
        for row, score in zip(rows.tolist(), row_scores):
            ids = row[: row.index(1) + 1] if 1 in row else row
            wanted = log_probability(peaked_model, sentence, ids)
            assert abs(score - wanted) < 1e-3
            # It was cut at the limit or ends and is padded.
            assert 1 in ids or len(ids) == 9
            assert not any(row[len(ids) :])
            ends.add(len(ids))
    assert len(ends) > 2


# === Lengths and prefixes ===


def test_limits_are_those_of_each_sentence(chain):
    token_ids, _ = draw(
        chain({0: {2: 1.0}, 2: {2: 1.0}}),
        padded([[7, 1], [7, 8, 9, 1], [1]]),
        max_extra_length=2,
        max_length=5,
    )
    lengths = np.count_nonzero(token_ids, axis=-1)
    np.testing.assert_array_equal(
        lengths, np.array([[4] * 5, [5] * 5, [3] * 5])
    )


@pytest.mark.parametrize("top_k", [None, 3])
def test_min_length_forbids_earlier_ends(chain, top_k):
    hasty = chain({0: {1: 0.9, 2: 0.1}, 2: {1: 0.8, 2: 0.2}})
    token_ids, scores = draw(
        hasty,
        padded([[7, 1], [7, 8, 9, 1]]),
        num_results=30,
        max_extra_length=1,
        min_length=4,
        top_k=top_k,
    )
    # The limit of the first, 3, goes before.
    for rows, row_scores, least in zip(as_lists(token_ids), scores, (3, 4)):
        assert all(row[: least - 1] == [2] * (least - 1) for row in rows)
        assert [2] * (least - 1) + [1] in rows
        for row, score in zip(rows, row_scores):
            # Also what was forbidden counts in what they are divided by.
            num_on = len(row) - (row[-1] == 1)
            wanted = np.log(0.1) + (num_on - 1) * np.log(0.2)
            wanted += (row[-1] == 1) * np.log(0.8)
            assert abs(score - wanted) < 1e-3


def test_draws_begin_with_their_prefixes(peaked_model, log_probability):
    prefixes = [[4, 7, 9], [], [9]]
    token_ids, scores = draw(
        peaked_model,
        padded(SENTENCES),
        target_prefix=padded(prefixes),
        max_length=6,
    )
    for number, prefix in enumerate(prefixes):
        rows = as_lists(token_ids)[number]
        assert all(row[: len(prefix)] == prefix for row in rows)
        assert len(set(map(tuple, rows))) > 1
        for row, score in zip(rows, scores[number]):
            wanted = log_probability(peaked_model, SENTENCES[number], row)
            assert abs(score - wanted) < 1e-3
    free, _ = draw(peaked_model, padded(SENTENCES), max_length=6)
    assert as_lists(token_ids)[1] == as_lists(free)[1]
    assert as_lists(token_ids)[0] != as_lists(free)[0]


@pytest.mark.parametrize(
    "arguments", [{}, {"top_k": 2}, {"top_p": 0.2}], ids=str
)
def test_unlikely_prefix_longer_than_the_limit_is_kept(chain, arguments):
    # Not one of the likeliest, but there is no other.
    token_ids, _ = draw(
        chain(ROWS),
        np.array([[7, 1], [7, 1]]),
        target_prefix=[[9, 12, 8, 5], [0, 0, 0, 0]],
        max_length=2,
        **arguments,
    )
    assert (token_ids[0, :, :4] == [9, 12, 8, 5]).all()
    assert (token_ids[0, :, 4] != 0).all()
    assert not token_ids[1, :, 2:].any()


@pytest.mark.parametrize("num_results", [1, 3])
def test_model_does_not_see_sentences_that_are_done(chain, num_results):
    sources = padded([[7] * length + [1] for length in (5, 1, 1)])
    endless = chain({0: {2: 1.0}, 2: {2: 1.0}})
    token_ids, _ = draw(
        endless, sources, num_results=num_results, max_extra_length=0
    )
    assert np.count_nonzero(token_ids[:, 0], axis=-1).tolist() == [6, 2, 2]
    assert [len(rows) for rows in endless.sources] == [3, 3, 1, 1, 1, 1]
    assert endless.sources[2] == sources[:1].tolist()


def test_attention_is_that_of_the_draws(peaked_model, as_graph):
    rows = padded(SENTENCES)
    plain = draw(peaked_model, rows, max_length=4)
    results = ra.sample(
        peaked_model,
        rows,
        num_results=5,
        seed=7,
        max_length=4,
        return_attention=True,
    )
    assert_same((np.asarray(results["token_ids"]), results["scores"]), plain)
    attention = np.asarray(results["attention"])
    # A decoder block of 3 heads.
    assert attention.shape == (3, 5, 1, 3, 4, 7)
    ids = plain[0][2, 3]
    scores = peaked_model.attention_scores(
        {
            "source_token_ids": rows[2:],
            "target_token_ids": np.array(
                [[peaked_model.start_token_id, *ids[:-1]]]
            ),
        }
    )["cross"]
    np.testing.assert_allclose(
        attention[2, 3], np.concatenate(scores), atol=1e-5
    )


@pytest.mark.parametrize("rows, max_length", [(0, 9), (3, 0)])
def test_no_sentence_or_no_length_gives_no_tokens(
    peaked_model, as_graph, rows, max_length
):
    results = ra.sample(
        peaked_model,
        padded(SENTENCES)[:rows],
        num_results=5,
        max_length=max_length,
        return_attention=True,
    )
    assert tuple(results["token_ids"].shape) == (rows, 5, 0)
    assert tuple(results["scores"].shape) == (rows, 5)
    assert tuple(results["attention"].shape) == (rows, 5, 1, 3, 0, 7)


@pytest.mark.parametrize(
    "convert",
    [
        pytest.param(np.ndarray.tolist, id="lists"),
        pytest.param(lambda rows: rows.astype(np.uint16), id="uint16"),
        pytest.param(keras.ops.convert_to_tensor, id="tensor"),
    ],
)
def test_source_may_be_of_any_int_type(peaked_model, as_graph, convert):
    rows = padded(SENTENCES)
    assert_same(draw(peaked_model, convert(rows)), draw(peaked_model, rows))


# === Errors ===


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


@pytest.mark.parametrize(
    "prefix, message",
    [
        pytest.param([[4], [5]], r"shape \(3, P\).*\(2, 1\)", id="rows"),
        pytest.param([[4], [1], [5]], r"no end of sentence \(id 1\)", id="end"),
        pytest.param([[4, 0], [0, 5], [6, 0]], "after padding", id="gap"),
    ],
)
def test_wrong_prefix_is_refused(chain, prefix, message):
    with pytest.raises(ValueError, match="`target_prefix` must .*" + message):
        ra.sample(chain(ROWS), padded(SENTENCES), target_prefix=prefix)
