"""The sentences that a search is not done with, and their cache."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import relative_attention as ra
from relative_attention.decoding.model_steps import drop_done
from relative_attention.decoding.model_steps import start_active

pytestmark = pytest.mark.usefixtures("eagerly")


@pytest.fixture
def start(chain):
    """`start(B)`: sentences `[[10], [11], ...]`, all active."""
    return lambda batch_size: start_active(
        chain({}), keras.ops.arange(10, 10 + batch_size)[:, None]
    )


def as_lists(active):
    return (
        np.asarray(active.cache["source_token_ids"])[:, 0].tolist(),
        np.asarray(active.active_sentences).tolist(),
        np.asarray(active.cache_row).tolist(),
    )


def is_done(*done, of):
    return tf.constant([sentence in done for sentence in range(of)])


def test_rows_of_sentences_that_are_done_are_dropped(start):
    active = drop_done(start(4), is_done(0, 2, of=4))
    assert as_lists(active) == ([11, 13], [1, 3], [0, 0, 0, 1])
    # Of those left, which are rows 0 and 1 of the cache.
    active = drop_done(active, is_done(0, 1, 2, of=4))
    assert as_lists(active) == ([13], [3], [0, 0, 0, 0])


def test_row_in_eight_is_worth_a_copy(start):
    assert as_lists(drop_done(start(8), is_done(3, of=8)))[1] == [
        *(0, 1, 2, 4, 5, 6, 7)
    ]
    assert as_lists(drop_done(start(9), is_done(3, of=9))) == as_lists(start(9))


def test_no_row_is_left_when_all_are_done(start):
    cache, active_sentences, _ = as_lists(
        drop_done(start(2), is_done(0, 1, of=2))
    )
    assert (cache, active_sentences) == ([], [])


@pytest.mark.parametrize("num_beams", [1, 3])
def test_search_does_not_show_the_model_what_is_done(chain, padded, num_beams):
    # They go on to their limit, and those in the middle are done first.
    sources = padded(
        [[7] * length + [1] for length in (7, 1, 3, 3, 5, 7, 7, 7, 7)]
    )
    endless = chain({0: {2: 1.0}, 2: {2: 1.0}})
    found = ra.beam_search(
        endless, sources, num_beams=num_beams, max_extra_length=0
    )
    lengths = np.count_nonzero(found["token_ids"][:, 0], axis=-1)
    assert lengths.tolist() == [8, 2, 4, 4, 6, 8, 8, 8, 8]
    sizes = [len(rows) for rows in endless.sources]
    # The first is one in nine, not worth a copy of the others.
    assert sizes == [9, 9, 9, 9, 6, 6, 5, 5]
    assert endless.sources[4] == sources[[0, 4, 5, 6, 7, 8]].tolist()
    assert endless.sources[6] == sources[[0, 5, 6, 7, 8]].tolist()


def test_sample_does_not_show_the_model_what_is_done(chain, padded):
    sources = padded([[7] * length + [1] for length in (5, 1, 1)])
    endless = chain({0: {2: 1.0}, 2: {2: 1.0}})
    found = ra.sample(endless, sources, num_results=3, max_extra_length=0)
    lengths = np.count_nonzero(found["token_ids"][:, 0], axis=-1)
    assert lengths.tolist() == [6, 2, 2]
    assert [len(rows) for rows in endless.sources] == [3, 3, 1, 1, 1, 1]
    assert endless.sources[2] == sources[:1].tolist()
