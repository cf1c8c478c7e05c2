"""From two text files to BLEU, as `3_train_a_translator` shows it."""

import re

import pytest


@pytest.mark.slow
def test_train_a_translator(printed_by):
    printed = printed_by("3_train_a_translator.ipynb")
    (bleu,) = re.findall(r"^BLEU ([\d.]+) \(.*tok:13a", printed, re.MULTILINE)
    assert float(bleu) > 80
    (first, last) = re.findall(r"validation loss +(\S+) -> (\S+)", printed)[0]
    assert float(last) < float(first) / 10
    bleu_of = dict(re.findall(r"^(with.*?) +BLEU +([\d.]+)$", printed, re.M))
    assert len(bleu_of) == 4
    assert float(bleu_of["with both"]) == pytest.approx(float(bleu), abs=0.1)
    losses = re.findall(r"^(?:one device|two devices) +(.+)$", printed, re.M)
    one, two = ([float(loss) for loss in line.split()] for line in losses)
    assert len(one) == 8 and one[-1] < one[0]
    assert one == pytest.approx(two, rel=1e-4)
