"""The page on speed shows the stored results."""

import pytest

import relative_attention as ra
from benchmarks.harness.engine import ROOT
from benchmarks.harness.results import Result
from benchmarks.report import fill_tables
from benchmarks.report import main
from benchmarks.speed_tables import TABLES

BLOCK = "<!-- {0}: by benchmarks.report -->\nold\n<!-- /{0} -->\n"


def test_the_page_is_up_to_date():
    page = ROOT / "docs" / "science" / "speed.md"
    main(["--check", str(page)])
    text = page.read_text("utf-8")
    for name in TABLES:
        assert f"<!-- {name}: by benchmarks.report -->" in text


def test_a_table_is_made_of_its_result(tmp_path):
    origin = {"hardware": "here", "python": "3", "commit": "abcdefgh"}
    Result(
        benchmark="output_length",
        command="",
        options={},
        precision="float32",
        origin={**origin, "date": "today"},
        rows=[
            {"num_beams": 1, "output_tokens": 16, "tokens_per_second": [3, 5]},
            {"num_beams": 1, "output_tokens": 64, "tokens_per_second": 2},
        ],
    ).write(tmp_path / "output_length.json")
    text = "before\n" + BLOCK.format("output_length") + "after\n"
    filled = fill_tables(text, tmp_path)
    assert "old" not in filled
    assert "| beam 1          |    4 |    2 |" in filled
    assert "here; Python 3; commit abcdefg; today." in filled
    assert filled.startswith("before\n<!-- ")
    assert filled.endswith(" -->\nafter\n")
    assert fill_tables(filled, tmp_path) == filled


def test_a_wrong_mark_is_an_error():
    for text, message in (
        ("no table", "there must be one"),
        ("<!-- a: by benchmarks.report -->\n", "0 of them end"),
        (BLOCK.format("a"), "no table 'a'. Known: attention_speed"),
    ):
        with pytest.raises(ra.InputError, match=message):
            fill_tables(text)


def test_an_old_table_is_reported_and_rewritten(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(BLOCK.format("training_speed"))
    with pytest.raises(SystemExit, match="page.md differs"):
        main(["--check", str(path)])
    main(["--write", str(path)])
    main(["--check", str(path)])
    assert "1.19 (1.05 to 1.33)" in path.read_text()
