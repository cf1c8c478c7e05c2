"""Beams, lengths and exports, as `4_decode_and_export` shows them."""

import importlib.util
import re

import pytest


@pytest.mark.slow
def test_decode_and_export(printed_by):
    printed = printed_by("4_decode_and_export.ipynb")
    assert re.search("bike.\n    Ein Mann", printed)
    greedy, beams = re.findall(r"log P (-[\d.]+)  ", printed)
    assert float(greedy) < float(beams) < 0
    (scores,) = re.findall(r"by hand (\S+), ra.beam_search (\S+)", printed)
    assert float(scores[0]) == pytest.approx(float(scores[1]), abs=1e-3)
    table = re.findall(r"^ +([\d.]+) +([\d.]+) +(-[\d.]+)$", printed, re.M)
    assert [row[0] for row in table] == ["0.0", "0.6", "1.0", "4.0"]
    assert float(table[0][1]) <= float(table[-1][1])
    assert "the same 25 translations and scores" in printed
    if importlib.util.find_spec("ctranslate2"):
        (ended,) = re.findall(r"the same (\d+) greedy translations", printed)
        assert int(ended) > 20
    else:
        assert "skipped" in printed
