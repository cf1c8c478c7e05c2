"""The guide on large jobs."""

import importlib.util
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.cli import parse
from tests.integration.readme_blocks import ROOT
from tests.integration.readme_blocks import blocks
from tests.integration.readme_blocks import redirections
from tests.integration.readme_blocks import shell_lines
from tests.small_models import WORDS

LARGE_JOBS = (ROOT / "docs" / "guides" / "large_jobs.md").read_text("utf-8")
NUM_LINES = 10_000
# The Python of an environment that has Apache Beam, which wants an older
# protobuf than this one has.
BEAM_PYTHON = os.environ.get("RELATIVE_ATTENTION_BEAM_PYTHON")
if not BEAM_PYTHON and importlib.util.find_spec("apache_beam"):
    BEAM_PYTHON = sys.executable


def test_commands_for_large_jobs_are_ones_that_there_are():
    commands = [
        words
        for language, block in blocks(LARGE_JOBS)
        if language == "shell"
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
