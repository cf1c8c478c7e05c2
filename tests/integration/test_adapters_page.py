"""The page on adapters and int8: its blocks run, in order, and its figures."""

import re
from pathlib import Path

import pytest

from benchmarks.decoding.int8_quality import describe
from benchmarks.harness.results import RESULTS
from benchmarks.harness.results import Result

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "adapters_and_int8.md").read_text("utf-8")


def test_the_table_is_that_of_the_stored_result():
    assert describe(Result.read(RESULTS / "int8_quality.json")) in PAGE


@pytest.mark.int8
@pytest.mark.large
@pytest.mark.only_on("tensorflow", reason="a SavedModel")
def test_blocks_run_one_after_the_other(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("domain.en").write_text("A man rides a bike.\nTwo dogs run.\n" * 8)
    Path("domain.de").write_text("Ein Mann radelt.\nZwei Hunde laufen.\n" * 8)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, "adapters_and_int8.md", "exec"), {})
    printed = capsys.readouterr().out
    assert len(re.findall(r"^\['Ein Mann .*'\]$", printed, re.M)) == 2
    assert Path("domain/model.safetensors").exists()
    assert Path("exported/int8/saved_model.pb").exists()
