"""What all benchmarks share: turns, figures, stored results."""

import json
import re

import pytest

import relative_attention as ra
from benchmarks.harness.results import RESULTS
from benchmarks.harness.results import Result
from benchmarks.harness.round_robin import round_robin
from benchmarks.harness.spread import median
from benchmarks.harness.spread import spread


def test_every_second_round_goes_backwards():
    order = []

    def turn(name):
        order.append(name)
        return len(order)

    figures = round_robin(["a", "b"], turn, rounds=2, warm_up_rounds=1)
    assert order == ["a", "b", "b", "a", "a", "b"]
    # What the third and later turns returned, by name and round.
    assert figures == {"a": [4, 5], "b": [3, 6]}


# === Figures ===


@pytest.mark.parametrize(
    ("figure", "shown"),
    [
        ([3.0, 1.0, 2.0], "2.00 (1.00 to 3.00)"),
        ([2.0, 2.001], "2.00"),
        (
            {"median": 1.5, "least": 1.0, "greatest": 1234.5},
            "1.50 (1.00 to 1,234.50)",
        ),
        (7, "7.00"),
    ],
    ids=["values", "equal", "summary", "number"],
)
def test_a_spread_is_the_median_with_least_and_greatest(figure, shown):
    assert spread(figure) == shown
    assert f"{median(figure):.2f}" == shown.split()[0]


# === Results ===


def test_what_is_written_is_read_again_a_row_a_line(tmp_path):
    result = Result(
        benchmark="any",
        command="python -m benchmarks.any",
        options={"rounds": 1},
        precision="float32",
        origin={"commit": "abc"},
        rows=[{"speed": [1.0, 2.0]}, {"speed": None}],
    )
    path = tmp_path / "new" / "any.json"
    result.write(path)
    assert Result.read(path) == result
    assert '  {"speed": [1.0, 2.0]},\n' in path.read_text()
    path.write_text('{"cases": []}')
    with pytest.raises(ra.InputError, match="any.json is not the result"):
        Result.read(path)


@pytest.mark.parametrize(
    "path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem
)
def test_stored_results_say_where_they_come_from(path):
    result = Result.read(path)
    assert result.rows
    assert re.fullmatch("[0-9a-f]{40}", result.origin["commit"])
    assert re.search(r"\((avx|amx)", result.origin["hardware"])
    assert result.command.startswith(("python -m bench", "relative-attention"))
    # No path of the machine that measured.
    assert not re.search(r'"/\w', json.dumps(dict(result.options)))
