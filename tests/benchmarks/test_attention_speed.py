"""What the benchmark of attention shows of its numbers."""

import json
import pathlib
import runpy
import statistics

ROOT = pathlib.Path(__file__).parents[2]


def test_forward_pass_alone_has_ratios_of_its_own(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    script = runpy.run_path(str(ROOT / "benchmarks" / "attention_speed.py"))
    stored = json.loads(
        (ROOT / "benchmarks" / "attention_speed.json").read_text("utf-8")
    )
    case = stored["cases"][-1]
    header, _, *rows = script["table"]([case]).splitlines()
    names = [name.strip() for name in header.strip("|").split("|")]
    start = names.index("forward alone")
    for row, kind in zip(rows, case["contestants"], strict=True):
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        ratios = case["contestants"][kind]["ratios_to_none"]["forward"]
        shown = cells[start + 2]
        assert names[start + 2] == "to no relative positions"
        assert shown.split()[0] == f"{statistics.median(ratios):.2f}"
