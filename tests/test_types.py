"""What editors and type checkers know of the public names."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

import relative_attention as ra

ROOT = pathlib.Path(__file__).parents[1]
NAMES = [name for name in ra.__all__ if name != "__version__"]

# The comment of a line is what a type checker must say of it.
PROGRAM = """\
import keras
import relative_attention as ra
layer = ra.RelativeSelfAttention(8, key_dim=64, max_relative_position=16)
print(layer(keras.ops.zeros((2, 10, 512)), use_causal_mask=True).shape)
rotary = ra.SelfAttention(8, 64, ra.positions.Rotary(500), dropout=0.1)
block = ra.TransformerEncoderBlock(rotary, ra.FeedForward(2048), name="first")
model = ra.Transformer.from_preset("transformer_tiny", vocabulary_size=1000)
text: str = ra.load_translator("tatoeba_en_de").translate(["A dog."])[0]
print(block(layer), model.count_params(), model.encode(text), text)
best = ra.load_translator("tatoeba_en_de").search(["A dog."], num_results=2)
print(best[0][0].score)
ra.CrossAttention(num_heads="8", key_dim=64)  # num_heads
ra.SelfAttention(8, 64, position_encodng="rotary")  # position_encodng
ra.FeedForward()  # intermediate_dim
ra.positions.Rotry()  # Rotry
model.encode()  # source_token_ids
print(best[0].score)  # score
ra.presets().append(1)  # append
ra.Transfomer  # Transfomer
"""


@pytest.mark.parametrize(
    "checker",
    [
        pytest.param("mypy", marks=pytest.mark.large),
        pytest.param("pyright", marks=pytest.mark.slow),
    ],
)
def test_type_checkers_find_mistakes_and_take_the_rest(checker, tmp_path):
    pytest.importorskip(checker, reason="`pip install '.[lint]'` installs it")
    lines = PROGRAM.splitlines()
    names = [f"print(ra.{name})" for name in NAMES]
    (tmp_path / "user.py").write_text("\n".join(lines + names))
    # Where the package is, also if another is installed.
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps({"include": ["user.py"], "extraPaths": [str(ROOT)]})
    )
    options = {
        "mypy": ["--ignore-missing-imports", "user.py"],
        "pyright": ["--pythonpath", sys.executable, "--project", "."],
    }
    result = subprocess.run(
        [sys.executable, "-m", checker, *options[checker]],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT)},
    )
    found = dict(re.findall(r"user\.py:(\d+).*?error: (.*)", result.stdout))
    mistakes = {
        str(number): line.split("  # ")[1]
        for number, line in enumerate(lines, 1)
        if "  # " in line
    }
    assert found.keys() == mistakes.keys(), result.stdout + result.stderr
    for number, word in mistakes.items():
        assert f'"{word}"' in found[number]
