"""`relative-attention benchmark`, on models too small to be fast."""

import functools

import pytest

import relative_attention as ra
from relative_attention.cli import main

TINY = ["transformer_tiny", "transformer_tiny_relative"]
SMALL = ["--batch-tokens", "16", "--vocabulary-size", "50"]
SHORT = ["--steps", "1", "--rounds", "1"]


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.slow
def test_table_has_a_row_for_each_preset_and_length(capsys):
    # One length, as each one more is two models to compile.
    arguments = ["--presets", *TINY, "--lengths", "4", *SMALL, *SHORT]
    assert main(["benchmark", *arguments, "--peak-tflops", "0.5"]) == 0
    output = capsys.readouterr()
    table = [line for line in output.out.splitlines() if line.startswith("|")]
    header, _, *rows = map(cells, table)
    assert header[:3] == ["preset", "tokens", "tokens/s"]
    assert [row[:2] for row in rows] == [[preset, "4"] for preset in TINY]
    assert rows[0][3] == "1.000"
    for _, _, tokens, slowdown, tflops, share in rows:
        assert float(tokens.replace(",", "")) > 0
        assert float(slowdown) > 0
        assert float(share.rstrip("%")) == pytest.approx(
            100 * float(tflops) / 0.5, abs=0.06
        )
    assert "batches of 16 tokens a side" in output.out
    assert "commit" in output.out
    assert "round 1 of 1" in output.err


@pytest.mark.slow
@pytest.mark.only_on("tensorflow", reason="the others trace each length")
def test_the_graph_is_one_for_any_length_as_of_train(monkeypatch):
    shapes = []
    call = ra.RelativeSelfAttention.call

    @functools.wraps(call)
    def noted(self, inputs, *args, **kwargs):
        shapes.append(tuple(inputs.shape))
        return call(self, inputs, *args, **kwargs)

    monkeypatch.setattr(ra.RelativeSelfAttention, "call", noted)
    arguments = ["--presets", TINY[1], "--lengths", "4", *SMALL, *SHORT]
    assert main(["benchmark", *arguments]) == 0
    assert {shape[:2] for shape in shapes} == {(None, None)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--presets", "transformer_huge"],
            "Unknown preset 'transformer_huge'",
        ),
        (["--presets", TINY[0], "--lengths", "0"], "at least 1"),
        (["--presets", TINY[0], "--steps", "0"], "at least 1"),
    ],
    ids=str,
)
def test_what_cannot_be_measured_is_refused(capsys, arguments, message):
    assert main(["benchmark", *arguments]) == 1
    assert message in capsys.readouterr().err
