"""Lengths and prefixes that translations are held to; arguments refused."""

import numpy as np
import pytest

import relative_attention as ra
from tests.decoding.known_models import Chain
from tests.decoding.known_models import arrays
from tests.decoding.known_models import until_end

pytestmark = pytest.mark.usefixtures("eagerly")

# What would rather end at once than go on.
HASTY = {0: {1: 0.9, 2: 0.1}, 2: {1: 0.8, 2: 0.2}}
# Each id is followed by the next.
COUNTING = {i: {i + 1: 0.9, 1: 0.1} for i in range(2, 12)} | {0: {2: 1.0}}
SEARCHES = pytest.mark.parametrize("search", [ra.beam_search, ra.sample])


def search(model, rows, **arguments):
    settings = {"num_beams": 3, "length_penalty": 0.0, **arguments}
    return arrays(ra.beam_search(model, rows, **settings))


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
    min_length, max_length, ids, num_beams
):
    found = search(
        Chain(HASTY),
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


def test_row_without_a_prefix_is_searched_freely():
    found = search(
        Chain(COUNTING),
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


@pytest.mark.parametrize("num_beams", [1, 3])
def test_prefix_may_be_longer_than_the_limit(num_beams):
    found = search(
        Chain({0: {2: 1.0}, 2: {2: 1.0}, 3: {1: 0.5, 3: 0.5}}),
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


# === What is refused ===


@pytest.mark.parametrize(
    "prefix, message",
    [
        ([[4], [5]], r"shape \(3, P\).*Received shape: \(2, 1\)"),
        ([[4, 1], [5, 0], [6, 0]], r"no end of sentence \(id 1\)"),
        ([[4, 0], [0, 5], [6, 0]], r"no id after padding \(id 0\)"),
        ([[4], [999], [6]], "Received: 4 to 999"),
    ],
)
def test_wrong_prefix_is_refused(peaked_model, prefix, message):
    with pytest.raises(ValueError, match=f"`target_prefix` must.*{message}"):
        ra.sample(peaked_model, [[5, 1], [3, 1], [6, 1]], target_prefix=prefix)


RAGGED = "padded with 0 to one length; `Translator.translate` takes str"


@SEARCHES
@pytest.mark.parametrize(
    "source, message",
    [
        ([5, 6, 1], r"Received: int64 of shape \(3,\)\.$"),
        (np.array([[5.5, 1.0]]), r"Received: float64 of shape \(1, 2\)\.$"),
        ([[5, 13, 1]], r"Received: 1 to 13\.$"),
        (["A man"], RAGGED),
        ([[5, 1], [1]], RAGGED),
    ],
)
def test_wrong_source_is_refused(peaked_model, search, source, message):
    with pytest.raises(
        ValueError, match=f"`source_token_ids` must .*{message}"
    ):
        search(peaked_model, source)


@SEARCHES
@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("source", [[5, 6, 7, 0], [5, 6, 1, 5]], ids=str)
def test_source_that_does_not_end_with_its_end_is_warned_of(
    peaked_model, search, source
):
    rows = [[5, 6, 7, 1], [0, 0, 0, 0], source]
    with pytest.warns(UserWarning, match="with id 1.*Received in row 2: "):
        search(peaked_model, rows, max_length=2)


@pytest.mark.parametrize(
    "search, arguments, message",
    [
        (ra.beam_search, {"num_beams": 0}, "at least 1"),
        (ra.beam_search, {"num_results": 5}, "between 1 and `num_beams`, 4"),
        (ra.beam_search, {"max_length": -1}, "at least 0"),
        (ra.beam_search, {"length_penalty": -0.5}, "from 0 to 10"),
        (ra.beam_search, {"length_penalty": 1e39}, "from 0 to 10"),
        (ra.beam_search, {"length_penalty": np.nan}, "from 0 to 10"),
        (ra.sample, {"min_length": -2}, "at least 0"),
        (
            ra.sample,
            {"temperature": 0},
            "above 0 (`beam_search` with one beam takes the most likely one)",
        ),
        (ra.sample, {"top_k": 1.5}, "an int"),
        (ra.sample, {"top_p": 1.5}, "in (0, 1]"),
        (ra.sample, {"seed": -3}, "at least 0"),
    ],
    ids=lambda value: getattr(value, "__name__", None) or str(value),
)
def test_error_says_what_is_out_of_range(search, arguments, message):
    with pytest.raises(ValueError) as raised:
        search(Chain(HASTY), [[7, 1]], **arguments)
    ((name, value),) = arguments.items()
    assert str(raised.value) == (
        f"`{name}` must be {message}. Received: {name}={value!r}."
    )


@SEARCHES
@pytest.mark.parametrize("limit", [2**31 - 1, 10**30])
def test_limits_beyond_any_sentence_are_no_limit(search, limit):
    model = Chain({0: {2: 1.0}, 2: {6: 1.0}, 6: {1: 1.0}})
    source = [[7, 8, 9, 1]]
    for arguments in (
        {"max_extra_length": limit, "max_length": limit},
        {"max_extra_length": 5, "max_length": limit},
    ):
        results = search(model, source, **arguments)
        assert np.asarray(results["token_ids"]).tolist() == [[[2, 6, 1]]]
    results = search(model, source, max_extra_length=1, min_length=limit)
    assert np.asarray(results["token_ids"]).shape == (1, 1, 5)
    results = search(model, source, max_extra_length=-limit)
    assert np.asarray(results["token_ids"]).shape == (1, 1, 0)


def test_beam_too_wide_for_a_step_is_refused(peaked_model):
    with pytest.raises(ValueError, match="`num_beams` must be at most 10,3"):
        ra.beam_search(peaked_model, [[5, 1]], num_beams=10**8)
    with pytest.raises(ValueError, match="at most 100. Received: num_beams=1"):
        ra.Translator(peaked_model, None, num_beams=10**8)
