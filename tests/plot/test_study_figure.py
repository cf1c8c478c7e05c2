import numpy as np
import pytest

from relative_attention.plot import study_figure

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
    """What is drawn of seeds, then of means."""
    *seeds, means = (
        line.get_xydata().tolist()
        for line in panel.lines
        if line.get_marker() in ".o"
    )
    return [point for some in seeds for point in some], means


def bars(panel):
    """The first bar of an interval, by its ends."""
    (container,) = panel.containers
    return container.lines[2][0].get_segments()


def test_each_row_has_a_line_and_each_group_a_panel():
    german, french = study_figure(table()).axes
    assert german.get_title() == "German" and french.get_title() == "French"
    # What is not trained yet is left out.
    assert [label.get_text() for label in german.get_yticklabels()] == [
        "sinusoidal",
        "relative",
    ]
    seeds, means = points(german)
    assert seeds == [[38, 0], [40, 0], [41, 1]]
    assert means == [[39, 0], [41, 1]]
    # The first row is on top.
    assert german.yaxis_inverted() and french.yaxis_inverted()
    assert points(french) == ([[56, 0]], [[56, 0]])


def test_means_of_several_seeds_have_their_deviation():
    german, _ = study_figure(table()).axes
    several, one = bars(german)
    np.testing.assert_allclose(several, [[37.6, 0], [40.4, 0]])
    # One seed has none.
    assert not np.size(one)


def test_along_an_axis_rows_are_in_the_order_of_their_values():
    german, french = study_figure(table(), axis="K").axes
    assert (german.get_xscale(), german.get_xlabel()) == ("symlog", "K")
    ticks = [label.get_text() for label in german.get_xticklabels()]
    assert ticks == ["0", "16"]
    assert points(german)[1] == [[0, 39], [16, 41]]
    assert points(french) == ([[1, 56]], [[1, 56]])


@pytest.mark.parametrize("axis", [None, "K"])
def test_labels_of_any_length_stay_apart(axis):
    rows = [
        (
            "",
            f"row {number}, " + "a long label " * 4,
            number,
            {"1": 3.0},
            3,
            None,
        )
        for number in range(8)
    ]
    figure = study_figure(table(rows), axis=axis)
    figure.draw_without_rendering()
    (panel,) = figure.axes
    labels = panel.get_xticklabels() if axis else panel.get_yticklabels()
    boxes = [label.get_window_extent() for label in labels]
    assert len(boxes) == 8
    assert not any(one.overlaps(other) for one, other in zip(boxes, boxes[1:]))
    assert all(figure.bbox.containsx(box.x0) for box in boxes)


def test_a_table_without_a_finished_run_is_refused():
    with pytest.raises(ValueError, match="must have a run that is finished"):
        study_figure(table([("", "left", 0, {}, None, None)]))
