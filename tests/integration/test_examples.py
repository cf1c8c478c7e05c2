"""The programs in `examples/` run, on little data."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# What each prints in the end, if it has learned anything.
PRINTED = {
    "classify_pictures": r"val_accuracy: [\d.]+",
    "classify_text": r"val_accuracy: [\d.]+",
    "forecast_series": r"as the last value: 0\.\d+",
    "language_model": r"\n[a-z .]{93}$",
}


def briefly(program):
    """A program with few rows and one epoch."""
    text, count = re.subn(
        r"^([A-Z, ]+), EPOCHS, EXAMPLES = (.*), [\d_]+, [\d_]+$",
        r"\1, EPOCHS, EXAMPLES = \2, 1, 80",
        program.read_text("utf-8"),
        flags=re.MULTILINE,
    )
    assert count == 1
    return text


@pytest.mark.large
@pytest.mark.parametrize("program", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(program, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    code = compile(briefly(program), program.name, "exec")
    exec(code, {"__name__": "__main__"})
    printed = capfd.readouterr().out.rstrip("\n")
    assert re.search(PRINTED[program.stem], printed)


def test_page_lists_every_example():
    text = (ROOT / "examples" / "README.md").read_text("utf-8")
    guide = (ROOT / "docs" / "guides" / "layer.md").read_text("utf-8")
    for program in EXAMPLES:
        assert f"({program.name})" in text
        assert f"examples/{program.name})" in guide
