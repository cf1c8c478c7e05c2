"""Lengths and prefixes that translations are held to, known by hand."""

import numpy as np
import pytest

import relative_attention as ra

pytestmark = pytest.mark.usefixtures("eagerly")


# What would rather end at once than go on.
HASTY = {0: {1: 0.9, 2: 0.1}, 2: {1: 0.8, 2: 0.2}}


# Each id is followed by the next.
COUNTING = {i: {i + 1: 0.9, 1: 0.1} for i in range(2, 12)} | {0: {2: 1.0}}


def search(model, rows, num_beams=3, num_results=1, **arguments):
    results = ra.beam_search(
        model,
        rows,
        num_beams=num_beams,
        num_results=num_results,
        **{"length_penalty": 0.0, **arguments},
    )
    return {name: np.asarray(value) for name, value in results.items()}


@pytest.mark.parametrize(
    "min_length, max_length, ids",
    [
        pytest.param(0, None, [1], id="none"),
        pytest.param(4, None, [2, 2, 2, 1], id="four"),
        pytest.param(9, None, [2, 2, 2, 2, 1], id="beyond_source_limit"),
        pytest.param(4, 3, [2, 2, 1], id="beyond_max_length"),
    ],
)
@pytest.mark.parametrize("num_beams", [1, 3])
def test_early_end_is_forbidden_but_counts_in_the_scores(
    chain, until_end, min_length, max_length, ids, num_beams
):
    found = search(
        chain(HASTY),
        [[7, 8, 1]],
        num_beams=num_beams,
        max_extra_length=2,
        min_length=min_length,
        max_length=max_length,
    )
    assert until_end(found["token_ids"][0, 0]) == ids
    # All but the first and the last token are a 2 after a 2.
    probability = 0.9
    if len(ids) > 1:
        probability = 0.1 * 0.2 ** (len(ids) - 2) * 0.8
    np.testing.assert_allclose(
        found["scores"][0, 0], np.log(probability), atol=1e-5
    )


def test_row_without_a_prefix_is_searched_freely(chain, until_end):
    found = search(
        chain(COUNTING),
        [[7, 1], [7, 1]],
        target_prefix=[[6, 9], [0, 0]],
        max_extra_length=2,
    )
    # The one that must begin with 9 after 6 goes on from there.
    assert until_end(found["token_ids"][0, 0]) == [6, 9, 1]
    assert until_end(found["token_ids"][1, 0]) == [2, 1]
    forced = np.log(1e-12) + np.log(1e-12) + np.log(0.1)
    np.testing.assert_allclose(
        found["scores"][:, 0], [forced, np.log(0.1)], rtol=1e-5
    )


@pytest.mark.parametrize("width", [0, 5])
def test_prefixes_that_are_all_empty_change_nothing(chain, width):
    sources = [[7, 1], [7, 8]]
    free = search(chain(COUNTING), sources, num_results=3)
    empty = search(
        chain(COUNTING),
        sources,
        num_results=3,
        target_prefix=np.zeros((2, width), np.int32),
    )
    for name, value in free.items():
        np.testing.assert_array_equal(empty[name], value)


@pytest.mark.parametrize("num_beams", [1, 3])
def test_prefix_may_be_longer_than_the_limit(chain, until_end, num_beams):
    found = search(
        chain({0: {2: 1.0}, 2: {2: 1.0}, 3: {1: 0.5, 3: 0.5}}),
        [[7, 1], [7, 1], [7, 1]],
        num_beams=num_beams,
        max_length=2,
        target_prefix=[[5, 4, 6, 3], [0, 0, 0, 0], [3, 3, 3, 0]],
    )
    ids = [until_end(row[0]) for row in found["token_ids"]]
    # One more than its prefix, to end with; without a prefix, as before.
    if num_beams > 1:
        assert ids == [[5, 4, 6, 3, 1], [2, 2], [3, 3, 3, 1]]
        np.testing.assert_allclose(
            found["scores"][2, 0], np.log(1e-12) + 3 * np.log(0.5), rtol=1e-5
        )
    assert [len(row) for row in ids] == [5, 2, 4]


@pytest.mark.parametrize(
    "prefix, message",
    [
        pytest.param(
            [[4], [5]], r"shape \(3, P\).*Received shape: \(2, 1\)", id="rows"
        ),
        pytest.param(
            [4, 5, 6], r"shape \(3, P\).*Received shape: \(3,\)", id="vector"
        ),
        pytest.param(
            [[4, 1], [5, 0], [6, 0]], r"no end of sentence \(id 1\)", id="end"
        ),
        pytest.param(
            [[4, 0], [0, 5], [6, 0]], r"no id after padding \(id 0\)", id="gap"
        ),
        pytest.param([[4], [-1], [6]], "Received: -1 to 6", id="negative"),
        pytest.param([[4], [999], [6]], "Received: 4 to 999", id="unknown"),
    ],
)
@pytest.mark.parametrize("search", [ra.beam_search, ra.sample])
def test_wrong_prefix_is_refused(peaked_model, search, prefix, message):
    with pytest.raises(
        ValueError, match="(?s)`target_prefix` must.*" + message
    ):
        search(peaked_model, [[5, 1], [3, 1], [6, 1]], target_prefix=prefix)
