"""Settings at the ends of what numbers can be."""

import numpy as np
import pytest

import relative_attention as ra

pytestmark = pytest.mark.usefixtures("eagerly")

SOURCE = np.array([[7, 8, 1]])
FIRST = {2: 0.4, 3: 0.3, 4: 0.2, 5: 0.1}
ROWS = {
    0: FIRST,
    **{first: {1: 0.25, 6: 0.75} for first in FIRST},
    6: {1: 1.0},
}
SEARCHES = [ra.beam_search, ra.sample]


def draw(model, num_results=50, **arguments):
    results = ra.sample(
        model,
        SOURCE,
        num_results=num_results,
        **{"seed": 2, "max_length": 4, **arguments},
    )
    return np.asarray(results["token_ids"])[0]


@pytest.mark.parametrize("temperature", [1e-300, 1e-20])
@pytest.mark.parametrize("arguments", [{}, {"top_k": 5, "top_p": 0.9}])
def test_lowest_temperatures_draw_the_likeliest(chain, temperature, arguments):
    ids = draw(chain(ROWS), temperature=temperature, **arguments)
    assert (ids == [2, 6, 1]).all()


@pytest.mark.parametrize("temperature", [1e7, np.inf])
@pytest.mark.parametrize("arguments", [{}, {"top_k": 17, "top_p": 1.0}])
def test_highest_temperatures_draw_alike_among_the_allowed(
    chain, temperature, arguments
):
    ids = draw(
        chain(ROWS),
        800,
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


@pytest.mark.parametrize("search", SEARCHES, ids=lambda f: f.__name__)
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
    assert np.asarray(results["token_ids"]).shape == (1, 1, 4)
    results = search(model, SOURCE, max_extra_length=-limit)
    assert np.asarray(results["token_ids"]).shape == (1, 1, 0)


@pytest.mark.parametrize("search", SEARCHES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("integer", [np.int8, np.uint16, np.int64])
def test_sizes_may_be_of_numpy(chain, search, integer):
    arguments = {
        "num_results": 2,
        "max_extra_length": 3,
        "max_length": 4,
        "min_length": 2,
    }
    more = {"num_beams": 3} if search is ra.beam_search else {"top_k": 3}
    arguments |= more if search is ra.beam_search else {**more, "seed": 5}
    plain = search(chain(ROWS), SOURCE, **arguments)
    found = search(
        chain(ROWS), SOURCE, **{n: integer(v) for n, v in arguments.items()}
    )
    for name, value in plain.items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize("value", [2.0, "2", None, True], ids=repr)
@pytest.mark.parametrize(
    ("search", "name"),
    [
        (ra.beam_search, "num_beams"),
        (ra.beam_search, "num_results"),
        (ra.beam_search, "max_extra_length"),
        (ra.sample, "num_results"),
        (ra.sample, "min_length"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_size_that_is_no_int_is_named(chain, search, name, value):
    with pytest.raises(ValueError, match=f"^`{name}` must be an int. "):
        search(chain(ROWS), SOURCE, **{name: value})


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
        search(chain(ROWS), SOURCE, **{name: value})


def test_beam_too_wide_for_a_step_is_refused(peaked_model):
    with pytest.raises(ValueError, match="`num_beams` must be at most 10,3"):
        ra.beam_search(peaked_model, SOURCE, num_beams=10**8)
    with pytest.raises(ValueError, match="with a vocabulary of 13:"):
        ra.Translator(peaked_model, None, num_beams=10**8)
