"""Guides whose readers have another machine, backend or Keras."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.cli import parse
from tests.integration.readme_blocks import ROOT
from tests.integration.readme_blocks import blocks
from tests.integration.readme_blocks import parse_words
from tests.integration.readme_blocks import redirections
from tests.integration.readme_blocks import shell_lines
from tests.small_models import WORDS

ADAPTERS, JAX, LARGE_JOBS = (
    (ROOT / "docs" / "guides" / f"{name}.md").read_text("utf-8")
    for name in ("adapters_and_int8", "jax", "large_jobs")
)


def blocks_of(page, language):
    return [block for name, block in blocks(page) if name == language]


# === The attention view and KerasHub ===


@pytest.mark.large
@pytest.mark.parametrize("name", ["attention_view", "keras_hub"])
def test_blocks_run_in_order_and_print_what_they_say(
    name, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "guides" / f"{name}.md").read_text("utf-8")
    given = {}
    for block in blocks_of(page, "python"):
        exec(compile(block, f"{name}.md", "exec"), given)
        printed = capsys.readouterr().out
        for shown in re.findall(r"^print\(.*\)  # (.*)$", block, re.M):
            assert shown in printed
    if name == "attention_view":
        assert given["logits"].shape == given["first"].scores.shape
        assert given["outputs"].shape == given["first"].value_context.shape


# === Adapters and int8 ===


@pytest.mark.int8
@pytest.mark.large
@pytest.mark.only_on("tensorflow", reason="a SavedModel")
def test_blocks_on_adapters_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for side, lines in (
        ("en", "A man rides a bike.\nTwo dogs run.\n"),
        ("de", "Ein Mann radelt.\nZwei Hunde laufen.\n"),
    ):
        pathlib.Path(f"domain.{side}").write_text(lines * 8)
    found = blocks_of(ADAPTERS, "python")
    assert len(found) == 3
    for block in found:
        exec(compile(block, "adapters_and_int8.md", "exec"), {})
    printed = capsys.readouterr().out
    assert len(re.findall(r"^\['Ein Mann .*'\]$", printed, re.M)) == 2
    assert pathlib.Path("domain/model.safetensors").exists()
    assert pathlib.Path("exported/int8/saved_model.pb").exists()


# === JAX ===

# What TensorFlow's part of the package needs alone; `keras-nlp` is for
# `keras_hub`.
OF_TENSORFLOW = {"keras-nlp", "tensorflow", "tensorflow-text"}


def test_packages_for_jax_are_those_that_the_package_requires():
    assert {name for name, _ in blocks(JAX)} == {"text", "shell", "python"}
    (block,) = blocks_of(JAX, "text")
    first, second = shell_lines(block)
    assert first == ["pip", "install", "--no-deps", "."]
    assert second[:3] == ["pip", "install", "jax[cuda13]"]
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    (required,) = re.findall(r"install_requires=\[(.*?)\]", setup, re.DOTALL)
    names = set(re.findall(r'"([\w-]+)>=', required))
    assert set(second[3:]) == names - OF_TENSORFLOW


def test_commands_and_code_for_jax_are_right(
    corpus, tmp_path, monkeypatch, capsys
):
    (block,) = blocks_of(JAX, "shell")
    lines = shell_lines(block)
    assert lines.pop(0) == ["export", "KERAS_BACKEND=jax"]
    for words in lines:
        # The run that is resumed is not there.
        if "--resume" not in words:
            parse_words(words)
    for name in ("train.en", "train.de"):
        shutil.copyfile(corpus / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    (block,) = blocks_of(JAX, "python")
    exec(compile(block, "docs/guides/jax.md", "exec"), {})
    assert re.match(r"\[\(\d+, \d+\).*\] 0\.\d+", capsys.readouterr().out)


# === Large jobs ===

NUM_LINES = 10_000
# The Python of an environment that has Apache Beam, which wants an older
# protobuf than this one has.
BEAM_PYTHON = os.environ.get("RELATIVE_ATTENTION_BEAM_PYTHON")
if not BEAM_PYTHON and importlib.util.find_spec("apache_beam"):
    BEAM_PYTHON = sys.executable


def test_commands_for_large_jobs_are_ones_that_there_are():
    commands = [
        words
        for block in blocks_of(LARGE_JOBS, "shell")
        for words in shell_lines(block)
    ]
    for words in commands:
        if words[0] == "relative-attention":
            assert parse(words[1:]).command in ("translate", "export")
        else:
            _, _, target = redirections(words)
            assert (words[0], target) == ("cat", "new.de")
    assert len(commands) == 4


def test_job_of_an_array_translates_its_shard(tmp_path):
    (job,) = [text for _, text in blocks(LARGE_JOBS) if "#SBATCH" in text]
    first, last = re.search(r"--array=(\d+)-(\d+)", job).groups()
    stand_in = tmp_path / "relative-attention"
    stand_in.write_text('#!/bin/bash\nprintf "%s\\n" "$@"\n')
    stand_in.chmod(0o755)
    for number in (first, last):
        environment = {
            "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
            "SLURM_ARRAY_TASK_ID": number,
        }
        called = subprocess.run(
            ["bash", "-c", job], env=environment, stdout=subprocess.PIPE
        )
        options = parse(called.stdout.decode().splitlines())
        assert (options.command, options.input) == ("translate", "new.en")
        assert options.output == f"new.de.{number}"
        assert options.shard == f"{number}/{last}"


@pytest.mark.large
@pytest.mark.skipif(
    not BEAM_PYTHON,
    reason="Apache Beam is missing: set RELATIVE_ATTENTION_BEAM_PYTHON to the "
    "Python of an environment that has it, TensorFlow and TensorFlow Text",
)
def test_beam_translates_as_translate_does(run, rng, tmp_path):
    # A model that is sure of what it says.
    model = ra.load_translator("multi30k_en_de_tiny_relative", num_beams=1)
    ra.save_translator(model, tmp_path / "model")
    ra.export_saved_model(model, tmp_path / "exported" / "mine" / "1")
    lines = [
        " ".join(rng.choice(WORDS, rng.integers(0, 9)))
        for _ in range(NUM_LINES)
    ]
    (tmp_path / "new.en").write_text("\n".join(lines))
    program = "docs/examples/translate_with_beam.py"
    (script,) = [text for _, text in blocks(LARGE_JOBS) if program in text]
    script = script.replace(
        f"python {program}", f"'{BEAM_PYTHON}' '{ROOT / program}'"
    )
    # It needs none of this package.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        ["bash", "-c", f"set -e -o pipefail\n{script}"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    theirs = (tmp_path / "new.de").read_text().split("\n")
    status, ours, _ = run(
        "translate", tmp_path / "model", "--input", tmp_path / "new.en"
    )
    ours = ours.split("\n")
    assert status == 0
    assert len(ours) == len(theirs) == NUM_LINES + 1
    assert len(set(ours)) > NUM_LINES / 2
    # Batches of other shapes round otherwise: what is equal to about 1e-6 may
    # turn, of tokens about one in a million.
    assert np.sum([a != b for a, b in zip(ours, theirs)]) <= 1
