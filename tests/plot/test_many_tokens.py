"""Attention of long sentences can be read, and heads can be compared."""

import itertools

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.plot import attention_figure

NUM_TOKENS = 70


@pytest.fixture
def scores(rng):
    return rng.dirichlet(np.ones(NUM_TOKENS), size=(3, NUM_TOKENS))


def figure_of(name, scores):
    tokens = [f"▁token{number}" for number in range(NUM_TOKENS)]
    if name == "heads":
        return ra.plot.heads_figure(scores, tokens)
    blocks = [scores, scores**2]
    by_part = {part: blocks for part in ("encoder", "decoder", "cross")}
    return attention_figure(by_part, tokens, tokens)


@pytest.mark.parametrize("name", ["heads", "attention"])
def test_no_label_lies_over_another(name, scores):
    figure = figure_of(name, scores)
    figure.draw_without_rendering()
    num_labels = 0
    for axes in figure.axes:
        if not axes.images:
            continue
        for ticks, side in ((axes.get_xticklabels(), 0), (axes.yaxis, 1)):
            labels = ticks if side == 0 else ticks.get_ticklabels()
            places = sorted(
                (box.min[side], box.max[side])
                for box in (label.get_window_extent() for label in labels)
            )
            num_labels += len(places)
            for (_, end), (start, _) in itertools.pairwise(places):
                assert end <= start
    # Most tokens have a name all the same.
    assert num_labels > NUM_TOKENS


def test_heads_have_one_scale_and_a_bar_that_says_it(scores):
    scores[0] /= 10
    figure = figure_of("heads", scores)
    panels = [axes for axes in figure.axes if axes.images]
    assert {axes.images[0].get_clim() for axes in panels} == {(0, scores.max())}
    (bar,) = [axes for axes in figure.axes if axes.get_label() == "<colorbar>"]
    assert bar.get_ylim() == (0, scores.max())


@pytest.mark.parametrize("num_blocks", [1, 6])
def test_relation_figure_has_room_for_titles_and_names(num_blocks, rng):
    tables = {
        f"encoder_block_{block}/{side}": rng.normal(size=(1, 9, 5))
        for block in range(num_blocks)
        for side in ("key", "value")
    }
    figure = ra.plot.relation_figure(tables, "Relation embeddings")
    figure.draw_without_rendering()
    page = figure.bbox
    title = figure.texts[0].get_window_extent()
    for axes in figure.axes:
        box = axes.title.get_window_extent()
        assert page.x0 <= box.x0 and box.x1 <= page.x1
        assert box.y1 < title.y0 < title.y1 <= page.y1
        for label in axes.get_yticklabels():
            assert label.get_window_extent().x0 >= page.x0
