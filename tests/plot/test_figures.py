"""The figures: what they draw of what they are given."""

import itertools
import math
import sys

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.plot.figure import figure_png
from tests.small_models import make_model


def panels(figure):
    return {axes.get_title(): axes for axes in figure.axes if axes.axison}


def with_images(figure):
    """All axes except color bars."""
    return [axes for axes in figure.axes if axes.images]


def lines(axes):
    return {line.get_label(): line.get_xydata().tolist() for line in axes.lines}


def texts(labels):
    return [label.get_text() for label in labels]


def is_png(figure):
    return figure_png(figure).startswith(b"\x89PNG")


# === Training curves ===

CURVE = [
    {
        "step": step,
        "loss": 5.0 / step,
        "val_loss": math.nan if step == 20 else 6.0 / step,
        "learning_rate": 0.1,
        **({"val_bleu": 7.0} if step == 30 else {}),
    }
    for step in (10, 20, 30)
]


def test_curves_have_a_panel_for_each_quantity():
    found = panels(ra.plot.curve_figure(CURVE))
    assert list(found) == ["loss", "BLEU", "learning rate"]
    assert lines(found["loss"]) == {
        "training": [[10, 0.5], [20, 0.25], [30, 5 / 30]],
        # Values that are not finite are skipped.
        "validation": [[10, 0.6], [30, 0.2]],
    }
    assert lines(found["BLEU"]) == {"validation": [[30, 7.0]]}
    # `results.json` has validation alone.
    curve = [{"step": 5, "seconds": 1, "val_loss": 2.0, "val_accuracy": 0.5}]
    found = panels(ra.plot.curve_figure(curve))
    assert list(found) == ["loss", "accuracy"]
    assert lines(found["loss"]) == {"validation": [[5, 2.0]]}


def test_flat_curves_are_inside_their_panels():
    names = ["loss", "accuracy", "val_bleu", "learning_rate"]
    curve = [
        {"step": step, **dict.fromkeys(names, 7 + step * 1e-4)}
        | {"gradient_norm": 7.0}
        for step in (1, 2, 3)
    ]
    for axes in panels(ra.plot.curve_figure(curve)).values():
        low, high = axes.get_ylim()
        values = axes.lines[0].get_ydata()
        margin = 0.04 * (high - low)
        assert low + margin <= min(values) <= max(values) <= high - margin
    # That of the gradient norm.
    assert low == 0
    assert is_png(ra.plot.curve_figure([]))


# === BLEU by length ===

LENGTHS = [
    ra.LengthScore(least=1, most=5, mean=3.5, num_sentences=7, bleu=40.0),
    ra.LengthScore(least=6, most=20, mean=9.0, num_sentences=8, bleu=31.0),
]


def test_bleu_is_drawn_against_length():
    figure = ra.plot.length_figure(LENGTHS)
    bleu, sentences = figure.axes
    assert bleu.lines[0].get_xydata().tolist() == [[3.5, 40.0], [9.0, 31.0]]
    assert bleu.get_legend() is None
    assert bleu.get_ylim()[0] == 0 and bleu.get_ylim()[1] > 40
    bars = [
        (b.get_x(), b.get_width(), b.get_height()) for b in sentences.patches
    ]
    assert bars == [(0.5, 5, 7), (5.5, 15, 8)]
    # A notebook shows it without pyplot.
    assert figure._repr_png_().startswith(b"\x89PNG")
    # Each system has a line; matplotlib hides labels that begin with an
    # underscore.
    names = ["runs/a", "_b"]
    figure = ra.plot.length_figure(dict.fromkeys(names, LENGTHS), title="Both")
    bleu, _ = figure.axes
    assert len(bleu.lines) == 2
    assert len({line.get_marker() for line in bleu.lines}) == 2
    assert texts(bleu.get_legend().get_texts()) == names
    assert bleu.get_title() == "Both"
    with pytest.raises(ValueError, match="what `bleu_by_length` returns"):
        ra.plot.length_figure({"a": LENGTHS, "b": []})


# === Studies ===

ROWS = [
    ("German", "sinusoidal", 0, {"1": 38.0, "2": 40.0}, 39.0, 1.4),
    ("German", "relative", 16, {"1": 41.0}, 41.0, None),
    ("German", "both", 4, {}, None, None),
    ("French", "sinusoidal", 1, {"1": 56.0}, 56.0, None),
]


def table(rows=ROWS):
    return [
        {
            "group": group,
            "label": label,
            "axis": axis,
            "bleu": bleu,
            "test_bleu": {"mean": mean, "standard_deviation": deviation},
        }
        for group, label, axis, bleu, mean, deviation in rows
    ]


def points(panel):
    """The points of seeds, then those of means."""
    *seeds, means = (
        line.get_xydata().tolist()
        for line in panel.lines
        if line.get_marker() in ".o"
    )
    return [point for some in seeds for point in some], means


def test_study_has_a_panel_for_each_group():
    german, french = ra.plot.study_figure(table()).axes
    assert german.get_title() == "German" and french.get_title() == "French"
    # Rows without a finished run are skipped.
    assert texts(german.get_yticklabels()) == ["sinusoidal", "relative"]
    seeds, means = points(german)
    assert seeds == [[38, 0], [40, 0], [41, 1]]
    assert means == [[39, 0], [41, 1]]
    # The first row is on top.
    assert german.yaxis_inverted() and french.yaxis_inverted()
    assert points(french) == ([[56, 0]], [[56, 0]])
    (container,) = german.containers
    several, one = container.lines[2][0].get_segments()
    np.testing.assert_allclose(several, [[37.6, 0], [40.4, 0]])
    # One seed has no deviation.
    assert not np.size(one)
    with pytest.raises(ValueError, match="must have a run that is finished"):
        ra.plot.study_figure(table([("", "left", 0, {}, None, None)]))


def test_study_is_ordered_along_an_axis():
    german, french = ra.plot.study_figure(table(), axis="K").axes
    assert (german.get_xscale(), german.get_xlabel()) == ("symlog", "K")
    assert texts(german.get_xticklabels()) == ["0", "16"]
    assert points(german)[1] == [[0, 39], [16, 41]]
    assert points(french) == ([[1, 56]], [[1, 56]])


# === Relation tables ===


def test_relations_are_drawn_by_distance(rng):
    tables = {
        # Each of three heads has its own.
        f"{block}/{side}": rng.normal(size=(3, 9, 5))
        for block in ("encoder_block_0", "encoder_block_1")
        for side in ("key", "value")
    }
    with pytest.raises(ra.InputError, match="at least one block"):
        ra.plot.relation_figure({}, "Relations")
    figure = ra.plot.relation_figure(tables, "Relations")
    *heat_maps, norms = figure.axes
    assert [len(axes.images) for axes in heat_maps] == [1, 1]
    for axes, side in zip(heat_maps, ("key", "value")):
        assert f"added to {side}s" in axes.get_title()
        image = axes.images[0].get_array()
        # Distances are columns.
        assert axes.images[0].get_extent()[:2] == [-4.5, 4.5]
        assert image.shape[1] == 9
        found = image.compressed().reshape(-1, 9).T
        expected = [
            table
            for block in ("encoder_block_0", "encoder_block_1")
            for table in tables[f"{block}/{side}"]
        ]
        np.testing.assert_array_equal(found, np.concatenate(expected, axis=1))
    labels = texts(heat_maps[0].get_yticklabels())
    assert labels == ["encoder block 0", "encoder block 1"]
    assert len(norms.lines) == 4
    np.testing.assert_array_equal(norms.lines[0].get_xdata(), range(-4, 5))
    np.testing.assert_allclose(
        norms.lines[0].get_ydata(),
        np.linalg.norm(tables["encoder_block_0/key"], axis=-1).mean(axis=0),
    )


# === Attention ===


def test_attention_shows_every_block_and_head(rng):
    num_blocks, num_heads, num_target, num_source = 2, 3, 4, 5
    shapes = {
        "encoder": (num_source, num_source),
        "decoder": (num_target, num_target),
        "cross": (num_target, num_source),
    }
    scores = {
        name: list(rng.uniform(size=(num_blocks, num_heads, *shape)))
        for name, shape in shapes.items()
    }
    # Dollar signs are marks of a formula, and few fonts have this script.
    source, target = ["$\\frac$", "$", "\\x", "猫", ""], ["a_b^", "b", "c", "d"]
    figure = ra.plot.attention_figure(scores, source, target)
    assert is_png(figure)
    alignment, *mosaics = with_images(figure)
    np.testing.assert_allclose(
        alignment.images[0].get_array(), scores["cross"][-1].mean(axis=0)
    )
    assert texts(alignment.get_xticklabels()) == source
    assert texts(alignment.get_yticklabels()) == target
    for axes, name in zip(mosaics, shapes, strict=True):
        height, width = shapes[name]
        image = axes.images[0].get_array()
        for block, head in itertools.product(range(2), range(3)):
            top, left = block * (height + 1), head * (width + 1)
            np.testing.assert_array_equal(
                image[top : top + height, left : left + width],
                scores[name][block][head],
            )
        assert texts(axes.get_xticklabels())[-1] == "head 2"


@pytest.mark.parametrize("num_heads", [1, 7])
def test_each_head_has_a_panel(num_heads, rng):
    scores = rng.uniform(size=(num_heads, 2, 3)).astype("float32")
    queries, keys = ["a", "$b$"], ["d", "e", "f"]
    figure = ra.plot.heads_figure(scores, queries, keys, title="Cross")
    assert figure.get_suptitle() == "Cross"
    found = with_images(figure)
    assert len(found) == num_heads
    for head, axes in enumerate(found):
        np.testing.assert_array_equal(axes.images[0].get_array(), scores[head])
        # One scale for all heads.
        assert axes.images[0].get_clim() == (0, scores.max())
        assert axes.get_title() == f"head {head + 1}"
        assert texts(axes.get_xticklabels()) == keys
        assert texts(axes.get_yticklabels()) == queries
    (bar,) = [axes for axes in figure.axes if axes.get_label() == "<colorbar>"]
    assert bar.get_ylim() == (0, scores.max())
    assert is_png(figure)


def test_half_precision_is_drawn_even_if_it_is_not_finite(rng):
    scores = rng.uniform(size=(2, 3, 3)).astype("float32")
    scores[0, 1] = np.nan
    scores = keras.ops.cast(scores, "bfloat16")
    figure = ra.plot.heads_figure(scores, ["I", "think", "I"])
    assert is_png(figure)


def test_scores_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"\(N, 3, 3\).*Received shape"):
        ra.plot.heads_figure(np.ones((2, 4, 3)), ["I", "think", "I"])


@pytest.mark.parametrize("name", ["heads", "attention"])
def test_labels_do_not_overlap(name, rng):
    scores = rng.dirichlet(np.ones(70), size=(3, 70))
    tokens = [f"▁token{number}" for number in range(70)]
    if name == "heads":
        figure = ra.plot.heads_figure(scores, tokens)
    else:
        blocks = dict.fromkeys(["encoder", "decoder", "cross"], [scores] * 2)
        figure = ra.plot.attention_figure(blocks, tokens, tokens)
    figure.draw_without_rendering()
    num_labels = 0
    for axes in with_images(figure):
        for side, labels in enumerate(
            (axes.get_xticklabels(), axes.get_yticklabels())
        ):
            boxes = [label.get_window_extent() for label in labels]
            places = sorted((box.min[side], box.max[side]) for box in boxes)
            num_labels += len(places)
            for (_, end), (start, _) in itertools.pairwise(places):
                assert end <= start
    # Most tokens have a name all the same.
    assert num_labels > 70


# === The picture of a model ===


@pytest.mark.large
def test_model_picture_is_saved(trained, tmp_path):
    translator = ra.load_translator(trained)
    path = tmp_path / "picture.png"
    translation = ra.plot.model_picture(translator, "he paid ten euros.", path)
    assert path.read_bytes().startswith(b"\x89PNG\r\n")
    assert translator.translate(["he paid ten euros."]) == [translation]


@pytest.mark.large
@pytest.mark.parametrize(
    "overrides",
    [
        {"position_encoding": "sinusoidal", "start_token_id": 7},
        {"share_relations_across_heads": False, "use_value_relations": False},
    ],
    ids=str,
)
def test_other_models_are_drawn(overrides, trained, rng, monkeypatch):
    vocabulary = ra.load_translator(trained).vocabulary
    model = make_model(rng, vocabulary_size=len(vocabulary), **overrides)
    attention_scores, given = model.attention_scores, []

    def record(inputs):
        given.append(inputs["target_token_ids"])
        return attention_scores(inputs)

    monkeypatch.setattr(model, "attention_scores", record)
    # Without a translation, most of the time would go into the search.
    figure = ra.plot.model_figure(
        ra.Translator(model, vocabulary), "he paid.", "er hat gezahlt."
    )
    assert is_png(figure)
    # The decoder starts with the token of the model.
    assert given[0][0, 0] == overrides.get("start_token_id", 0)


# === matplotlib ===


def test_missing_matplotlib_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for draw, arguments in (
        (ra.plot.curve_figure, [[]]),
        (ra.plot.model_picture, [None, "yes", "picture.png"]),
    ):
        with pytest.raises(ra.InputError, match=r"pip install '\.\[plot\]'"):
            draw(*arguments)
