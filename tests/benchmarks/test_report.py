"""The page on speed shows the stored results."""

import pytest

from benchmarks.harness.engine import ROOT
from benchmarks.report import main
from benchmarks.speed_tables import TABLES

BLOCK = "<!-- {0}: by benchmarks.report -->\nold\n<!-- /{0} -->\n"


def test_the_page_is_up_to_date():
    page = ROOT / "docs" / "science" / "speed.md"
    main(["--check", str(page)])
    text = page.read_text("utf-8")
    for name in TABLES:
        assert f"<!-- {name}: by benchmarks.report -->" in text


def test_an_old_table_is_reported_and_rewritten(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(BLOCK.format("training_speed"))
    with pytest.raises(SystemExit, match="page.md differs"):
        main(["--check", str(path)])
    main(["--write", str(path)])
    main(["--check", str(path)])
    assert "1.16 (0.99 to 1.27)" in path.read_text()
