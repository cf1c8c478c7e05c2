"""The blocks of `docs/guides/jax.md` are right: commands, packages, code."""

import re
import shutil

from tests.integration.readme_blocks import ROOT
from tests.integration.readme_blocks import blocks
from tests.integration.readme_blocks import parse_words
from tests.integration.readme_blocks import shell_lines

PAGE = (ROOT / "docs" / "guides" / "jax.md").read_text(encoding="utf-8")
# What TensorFlow's part of the package needs alone; `keras-nlp` is for
# `keras_hub`.
OF_TENSORFLOW = {"keras-nlp", "tensorflow", "tensorflow-text"}


def of_language(language):
    return [block for name, block in blocks(PAGE) if name == language]


def test_there_are_no_blocks_but_those_that_are_checked():
    assert {name for name, _ in blocks(PAGE)} == {"text", "shell", "python"}


def test_packages_are_those_that_the_package_requires():
    (block,) = of_language("text")
    first, second = shell_lines(block)
    assert first == ["pip", "install", "--no-deps", "."]
    assert second[:3] == ["pip", "install", "jax[cuda13]"]
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    (required,) = re.findall(r"install_requires=\[(.*?)\]", setup, re.DOTALL)
    names = set(re.findall(r'"([\w-]+)>=', required))
    assert set(second[3:]) == names - OF_TENSORFLOW


def test_commands_are_right():
    (block,) = of_language("shell")
    lines = shell_lines(block)
    assert lines.pop(0) == ["export", "KERAS_BACKEND=jax"]
    for words in lines:
        # The run that is gone on with is not there.
        if "--resume" not in words:
            parse_words(words)


def test_code_runs(corpus, tmp_path, monkeypatch, capsys):
    for name in ("train.en", "train.de"):
        shutil.copyfile(corpus / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    (block,) = of_language("python")
    exec(compile(block, "docs/guides/jax.md", "exec"), {})
    assert re.match(r"\[\(\d+, \d+\).*\] 0\.\d+", capsys.readouterr().out)
