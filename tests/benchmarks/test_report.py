"""Pages show the stored results of benchmarks."""

import pytest

from benchmarks.attention.attention_speed import KERAS
from benchmarks.harness.engine import ROOT
from benchmarks.harness.results import Result
from benchmarks.harness.spread import median
from benchmarks.report import main
from benchmarks.speed_tables import TABLES

PAGES = (
    "docs/science/speed.md",
    "docs/science/positions.md",
    "models/small_relative/README.md",
    "models/tatoeba_de_en/README.md",
)
BLOCK = "<!-- {0}: by benchmarks.report -->\nold\n<!-- /{0} -->\n"


def test_pages_are_up_to_date():
    pages = [ROOT / page for page in PAGES]
    for page in pages:
        main(["--check", str(page)])
    text = "".join(page.read_text("utf-8") for page in pages)
    for name in TABLES:
        assert f"<!-- {name}: by benchmarks.report -->" in text


def test_the_readme_is_up_to_date():
    def rows(name):
        path = ROOT / "benchmarks" / "results" / f"{name}.json"
        return Result.read(path).rows

    by_tokens = {row["tokens"]: row for row in rows("attention_speed")}
    layer = [
        f"{median(by_tokens[tokens]['backward']['over'][KERAS]):.2f}"
        for tokens in (32, 128, 512)
    ]
    (training,) = [
        f"{median(row['ratio_to_peer']):.2f}"
        for row in rows("training_speed")
        if row["engine"] == "relative, mixed_bfloat16"
    ]
    (translation,) = [
        f"{median(row['ratio_to_base']):.2f}"
        for row in rows("translation_speed")
        if row["engine"] == "relative-attention"
        and (row["num_beams"], row["batch_size"]) == (4, 32)
    ]
    text = " ".join((ROOT / "README.md").read_text("utf-8").split())
    for sentence in (
        f"**{layer[0]}** times the time of `keras.layers.MultiHeadAttention`, "
        "which has no positions, at 32 tokens, "
        f"{layer[1]} at 128, {layer[2]} at 512.",
        f"**{training}** times the tokens per second of OpenNMT-tf",
        f"**{translation}** times the sentences per second of OpenNMT-tf",
    ):
        assert sentence in text


def test_an_old_table_is_reported_and_rewritten(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(BLOCK.format("training_speed"))
    with pytest.raises(SystemExit, match="page.md differs"):
        main(["--check", str(path)])
    main(["--write", str(path)])
    main(["--check", str(path)])
    assert "1.16 (0.99 to 1.27)" in path.read_text()
