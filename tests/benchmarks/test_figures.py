"""How figures are summarised and shown."""

import pytest

from benchmarks.harness.results import origin_line
from benchmarks.harness.spread import median
from benchmarks.harness.spread import ratios
from benchmarks.harness.spread import spread
from benchmarks.harness.tables import markdown_table


@pytest.mark.parametrize(
    ("figure", "shown"),
    [
        ([3.0, 1.0, 2.0], "2.00 (1.00 to 3.00)"),
        ([2.0, 2.001], "2.00"),
        (
            {"median": 1.5, "least": 1.0, "greatest": 1234.5},
            "1.50 (1.00 to 1,234.50)",
        ),
        ({"median": 1.5}, "1.50"),
        (7, "7.00"),
    ],
    ids=["values", "alike", "summary", "median", "number"],
)
def test_a_spread_is_the_median_with_least_and_greatest(figure, shown):
    assert spread(figure) == shown


def test_a_median_is_that_of_values_or_of_a_summary():
    assert median([1.0, 9.0, 2.0]) == median({"median": 2.0}) == median(2) == 2


def test_ratios_are_those_of_the_same_round():
    assert ratios([2.0, 9.0], [4.0, 3.0]) == [0.5, 3.0]
    with pytest.raises(ValueError):
        ratios([1.0], [1.0, 2.0])


def test_a_table_shows_cells_as_they_are_given():
    table = markdown_table(["name", "n"], [["a", "1.50"], ["b", 12]])
    assert table.splitlines() == [
        "| name   |    n |",
        "|:-------|-----:|",
        "| a      | 1.50 |",
        "| b      |   12 |",
    ]


def test_the_line_below_a_table_says_where_it_comes_from():
    origin = {
        "hardware": "a machine",
        "python": "3.11",
        "tensorflow": None,
        "commit": "0123456789+",
        "date": "2026-11-22",
    }
    line = "a machine; Python 3.11; commit 0123456+; 2026-11-22."
    assert origin_line(origin) == line
    two = origin_line(origin, ["a" * 40, "b" * 40])
    assert "; commit aaaaaaa and bbbbbbb; " in two
