"""Pages show the stored results of benchmarks, models and studies."""

import pytest

from benchmarks.page_tables import FIGURES
from benchmarks.page_tables import TABLES
from benchmarks.report import main
from benchmarks.report import pages

BLOCK = "<!-- {0}: by benchmarks.report -->\nold\n<!-- /{0} -->\n"


def test_pages_are_up_to_date():
    main(["--check"])
    text = "".join(page.read_text("utf-8") for page in pages())
    for name in TABLES:
        assert f"<!-- {name}: by benchmarks.report -->" in text
    for name in FIGURES:
        assert f"<!-- {name} -->" in text


def test_an_old_table_is_reported_and_rewritten(tmp_path):
    path = tmp_path / "page.md"
    figure = "It takes 0.1\nto 0.2<!-- layer_over_keras --> times as long."
    path.write_text(BLOCK.format("training_speed") + figure)
    with pytest.raises(SystemExit, match="page.md differs"):
        main(["--check", str(path)])
    main(["--write", str(path)])
    main(["--check", str(path)])
    assert "1.16 (0.99 to 1.27)" in path.read_text()
    assert "It takes 1.07 to 1.18<!-- layer_over_keras --> times" in (
        path.read_text()
    )
