import math
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.plot import attention_figure
from relative_attention.plot import curve_figure
from relative_attention.plot import figure_png
from relative_attention.plot import relation_figure
from relative_attention.plot import training_curve

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


def panels(figure):
    return {axes.get_title(): axes for axes in figure.axes if axes.axison}


def with_images(figure):
    """All axes but those that are scales of colours."""
    return [axes for axes in figure.axes if axes.images]


def lines(axes):
    return {line.get_label(): line.get_xydata().tolist() for line in axes.lines}


def test_curves_have_a_panel_for_what_the_run_has():
    found = panels(curve_figure(CURVE))
    assert list(found) == ["loss", "BLEU", "learning rate"]
    assert lines(found["loss"]) == {
        "training": [[10, 0.5], [20, 0.25], [30, 5 / 30]],
        # What is not finite is left out.
        "validation": [[10, 0.6], [30, 0.2]],
    }
    assert lines(found["BLEU"]) == {"validation": [[30, 7.0]]}


def test_curve_of_results_has_validation_alone():
    curve = [{"step": 5, "seconds": 1, "val_loss": 2.0, "val_accuracy": 0.5}]
    found = panels(curve_figure(curve))
    assert list(found) == ["loss", "accuracy"]
    assert lines(found["loss"]) == {"validation": [[5, 2.0]]}


def test_lines_that_change_little_are_inside_their_panels():
    names = ["loss", "perplexity", "accuracy", "val_bleu", "learning_rate"]
    curve = [
        {
            "step": step,
            "gradient_norm": 7.0,
            **{name: 7.0 + step * 1e-4 for name in names},
        }
        for step in (1, 2, 3)
    ]
    found = panels(curve_figure(curve))
    assert len(found) == 6
    for axes in found.values():
        low, high = axes.get_ylim()
        values = axes.lines[0].get_ydata()
        margin = 0.04 * (high - low)
        assert low + margin <= min(values) <= max(values) <= high - margin
    assert found["gradient norm"].get_ylim()[0] == 0


@pytest.mark.parametrize(
    "curve", [CURVE, [], [{"step": 1, "val_loss": math.inf}]], ids=len
)
def test_curve_is_a_png_whatever_there_is(curve, tmp_path):
    training_curve(curve, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("num_tables", [1, 3])
def test_relations_are_drawn_by_distance(num_tables, rng):
    tables = {
        f"{block}/{side}": rng.normal(size=(num_tables, 9, 5))
        for block in ("encoder_block_0", "encoder_block_1")
        for side in ("key", "value")
    }
    figure = relation_figure(tables, "Relations")
    *heat_maps, lengths = figure.axes
    assert [len(axes.images) for axes in heat_maps] == [1, 1]
    for axes, side in zip(heat_maps, ("key", "value")):
        assert f"added to {side}s" in axes.get_title()
        image = axes.images[0].get_array()
        # Distances are columns.
        assert axes.images[0].get_extent()[:2] == [-4.5, 4.5]
        assert image.shape[1] == 9
        found = image.compressed().reshape(-1, 9).T
        expected = np.concatenate(
            [
                table
                for block in ("encoder_block_0", "encoder_block_1")
                for table in tables[f"{block}/{side}"]
            ],
            axis=1,
        )
        np.testing.assert_array_equal(found, expected)
    labels = [label.get_text() for label in heat_maps[0].get_yticklabels()]
    assert labels == ["encoder block 0", "encoder block 1"]
    assert len(lengths.lines) == 4
    np.testing.assert_array_equal(lengths.lines[0].get_xdata(), range(-4, 5))
    np.testing.assert_allclose(
        lengths.lines[0].get_ydata(),
        np.linalg.norm(tables["encoder_block_0/key"], axis=-1).mean(axis=0),
    )


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
    source = [f"source {i}" for i in range(num_source)]
    target = [f"target {i}" for i in range(num_target)]
    figure = attention_figure(scores, source, target)
    alignment, *mosaics = with_images(figure)
    np.testing.assert_allclose(
        alignment.images[0].get_array(), scores["cross"][-1].mean(axis=0)
    )
    assert [t.get_text() for t in alignment.get_xticklabels()] == source
    assert [t.get_text() for t in alignment.get_yticklabels()] == target
    for axes, (height, width) in zip(mosaics, shapes.values()):
        name = ("encoder", "decoder", "cross")[mosaics.index(axes)]
        image = axes.images[0].get_array()
        for block in range(num_blocks):
            for head in range(num_heads):
                top, left = block * (height + 1), head * (width + 1)
                np.testing.assert_array_equal(
                    image[top : top + height, left : left + width],
                    scores[name][block][head],
                )
        assert [t.get_text() for t in axes.get_xticklabels()][-1] == "head 2"


def test_tokens_are_drawn_whatever_they_are_made_of(rng):
    # Dollar signs are marks of a formula, and few fonts have this script.
    tokens = ["$\\frac$", "$", "\\x", "猫", "a_b^", ""]
    scores = [rng.uniform(size=(1, 6, 6))]
    figure = attention_figure(
        {"encoder": scores, "decoder": scores, "cross": scores}, tokens, tokens
    )
    assert figure_png(figure).startswith(b"\x89PNG")


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
    assert figure_png(figure).startswith(b"\x89PNG")


def test_systems_are_a_line_each_whatever_their_names():
    # matplotlib leaves out of a legend what begins with an underscore.
    names = ["runs/a", "_b"]
    figure = ra.plot.length_figure(dict.fromkeys(names, LENGTHS), title="Both")
    bleu, _ = figure.axes
    assert len(bleu.lines) == 2
    legend = bleu.get_legend().get_texts()
    assert [text.get_text() for text in legend] == names
    assert bleu.get_title() == "Both"


@pytest.mark.parametrize("scores", [[], {}, {"a": LENGTHS, "b": []}], ids=str)
def test_no_length_is_refused(scores):
    with pytest.raises(ValueError, match="what `bleu_by_length` returns"):
        ra.plot.length_figure(scores)


@pytest.mark.parametrize("num_heads", [1, 3, 7])
def test_heads_have_a_panel_each(num_heads, rng):
    scores = rng.uniform(size=(num_heads, 2, 3))
    queries, keys = ["a", "$b$"], ["d", "e", "f"]
    figure = ra.plot.heads_figure(scores, queries, keys, title="Cross")
    assert figure.get_suptitle() == "Cross"
    found = with_images(figure)
    assert len(found) == num_heads
    for head, axes in enumerate(found):
        np.testing.assert_array_equal(axes.images[0].get_array(), scores[head])
        assert axes.get_title() == f"head {head + 1}"
        assert [t.get_text() for t in axes.get_xticklabels()] == keys
        assert [t.get_text() for t in axes.get_yticklabels()] == queries
    assert figure_png(figure).startswith(b"\x89PNG")


def test_heads_of_self_attention_have_the_same_tokens_twice(rng):
    words = ["I", "think", "I"]
    figure = ra.plot.heads_figure(rng.uniform(size=(1, 3, 3)), words)
    [axes] = with_images(figure)
    for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
        assert [label.get_text() for label in labels] == words


@pytest.mark.parametrize("shape", [(2, 4, 3), (1, 2, 3, 3), (3, 3)], ids=str)
def test_scores_of_other_tokens_are_refused(shape):
    with pytest.raises(ValueError, match=r"\(N, 3, 3\).*Received shape"):
        ra.plot.heads_figure(np.ones(shape), ["I", "think", "I"])


def test_relations_of_a_model_can_be_drawn():
    model = ra.Transformer.from_preset(
        "transformer_tiny_relative", vocabulary_size=11
    )
    tables = ra.relation_tables(model)
    figure = ra.plot.relation_figure(tables, "Relations")
    num_blocks = len({name.split("/")[0] for name in tables})
    assert len(figure.axes[-1].lines) == 2 * num_blocks


FIGURES = {
    "attention_figure": [{}, [], []],
    "curve_figure": [[]],
    "heads_figure": [np.ones((1, 1, 1)), ["a"]],
    "length_figure": [LENGTHS],
    "model_figure": [None, "yes"],
    "relation_figure": [{}, ""],
    "study_figure": [[{"group": "", "bleu": {"1": 30.0}}]],
}


@pytest.mark.parametrize("name", FIGURES)
def test_without_matplotlib_a_figure_says_how_to_get_it(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    figure = getattr(ra.plot, name)
    with pytest.raises(ra.InputError, match=r"pip install '\.\[plot\]'"):
        figure(*FIGURES[name])


def test_every_figure_is_named_in_the_tests_above():
    names = {name for name in ra.plot.__all__ if name.endswith("_figure")}
    assert names - {"save_figure"} == set(FIGURES)


def test_notebook_shows_a_figure_where_pyplot_was_not_imported():
    assert ra.plot.length_figure(LENGTHS)._repr_png_().startswith(b"\x89PNG")


def test_no_file_imports_matplotlib_when_it_is_imported():
    folder = pathlib.Path(ra.plot.__file__).parent
    for path in folder.glob("*.py"):
        # Those below `if TYPE_CHECKING` are indented.
        assert not re.search(
            "^(import|from) matplotlib", path.read_text(), re.M
        )


@pytest.mark.large
def test_plot_is_imported_when_used_and_matplotlib_when_drawn():
    script = (
        "import sys\n"
        "sys.modules['matplotlib'] = None\n"
        "import relative_attention as ra\n"
        "assert 'relative_attention.plot' not in sys.modules\n"
        "print(ra.plot.length_figure.__name__, 'plot' in dir(ra))\n"
    )
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
    )
    assert result.stdout == "length_figure True\n", result.stderr
