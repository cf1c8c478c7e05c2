"""The whole line: a model that understands numbers it has never seen."""

import pytest

from relative_attention.cli import main


@pytest.mark.large
def test_demo_reaches_bleu_90_on_held_out_values(tmp_path, capsys):
    assert main(["demo", "--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    score = float(out.split("held-out BLEU ")[1].split()[0])
    assert score >= 90
    assert "tok:13a" in out
    assert out.count("translation  ") == 10
    assert (tmp_path / "attention.png").read_bytes()[:4] == b"\x89PNG"
