"""Turns, figures, stored results, and the pages that show them."""

import json
import re

import pytest

import relative_attention as ra
from benchmarks.harness.engine import ROOT
from benchmarks.harness.engine import round_robin
from benchmarks.harness.results import RESULTS
from benchmarks.harness.results import Result
from benchmarks.harness.results import median
from benchmarks.harness.results import spread
from benchmarks.page_tables import FIGURES
from benchmarks.page_tables import TABLES
from benchmarks.report import main
from benchmarks.report import pages


def test_round_robin_reverses_every_second_round():
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
        ([1.5, 1.0, 1234.5], "1.50 (1.00 to 1,234.50)"),
        (7, "7.00"),
    ],
    ids=["values", "equal", "thousands", "number"],
)
def test_spread_shows_median_least_and_greatest(figure, shown):
    assert spread(figure) == shown
    assert f"{median(figure):.2f}" == shown.split()[0]


# === Results ===


def test_result_is_read_as_it_was_written(tmp_path):
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
def test_stored_result_has_its_origin(path):
    result = Result.read(path)
    assert result.rows
    assert re.fullmatch("[0-9a-f]{40}", result.origin["commit"])
    assert re.search(r"\((avx|amx)|NVIDIA", result.origin["hardware"])
    assert result.command.startswith(("python -m bench", "relative-attention"))
    # No path of the machine that measured.
    assert not re.search(r'"/\w', json.dumps(dict(result.options)))


# === Pages ===

BLOCK = "<!-- {0}: by benchmarks.report -->\nold\n<!-- /{0} -->\n"


def test_pages_show_the_stored_results():
    main(["--check"])
    text = "".join(page.read_text("utf-8") for page in pages())
    for name in TABLES:
        assert f"<!-- {name}: by benchmarks.report -->" in text
    for name in FIGURES:
        assert f"<!-- {name} -->" in text


def test_report_rewrites_an_old_table(tmp_path):
    path = tmp_path / "page.md"
    figure = "It takes 0.1\nto 0.2<!-- layer_over_keras --> times as long."
    path.write_text(BLOCK.format("training_speed") + figure)
    with pytest.raises(SystemExit, match="page.md differs"):
        main(["--check", str(path)])
    main(["--write", str(path)])
    main(["--check", str(path)])
    # The page has what the page of the documentation has.
    new, page = path.read_text(), (ROOT / "docs/science/speed.md").read_text()
    assert new.partition("\nIt takes")[0].strip() in page
    (ratios,) = re.findall(r"[\d.]+ to\s[\d.]+<!-- layer_over_keras -->", new)
    assert ratios in page and "0.1" not in ratios
