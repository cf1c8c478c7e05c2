"""The command line: `--help`, backends, and what goes wrong anywhere."""

import os
import re
import shlex
import subprocess
import sys

import pytest

import relative_attention as ra
from relative_attention.cli import main
from relative_attention.cli import parse
from tests.cli.conftest import check_refused


def test_package_runs_as_a_module():
    command = [sys.executable, "-m", "relative_attention", "--version"]
    shown = subprocess.run(command, capture_output=True, text=True).stdout
    assert shown == f"relative-attention {ra.__version__}\n"


def help_of(command, capsys):
    with pytest.raises(SystemExit) as raised:
        main([*command.split(), "--help"])
    assert raised.value.code == 0
    return capsys.readouterr().out


def test_help_fits_the_terminal_and_its_examples_run(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    commands = re.findall(r"^    (\w+)\b", help_of("", capsys), re.M)
    kinds = {
        "convert": ("tensor2tensor", "opennmt-tf"),
        "data": ("wmt14_en_de", "wmt14_en_fr", "pairs", "variants"),
    }
    for command, names in kinds.items():
        commands.remove(command)
        commands += [f"{command} {name}" for name in names]
    assert len(commands) == 19
    for command in commands:
        text = help_of(command, capsys)
        assert max(map(len, text.splitlines())) <= 80
        # As a shell joins them.
        example = text.split("example:")[1].replace("\\\n", "")
        lines = re.findall(r"relative-attention (.*)", example)
        assert lines, command
        for line in lines:
            words = re.split(r" [<>] ", line)[0]
            options = parse(shlex.split(words))
            assert options.command == command.split()[0]
            if command == "study":
                ra.find_study(options.study).override(options.overrides)
            if command == "train" and not options.resume:
                recipe = ra.find_recipe(options.recipe)
                recipe.override(options.overrides)


# === Backends and packages ===


@pytest.mark.large
@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"KERAS_BACKEND": "nonsense"}, "Keras cannot start.*nonsense"),
        (
            {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cuda"},
            "JAX cannot start.*JAX_PLATFORMS",
        ),
    ],
    ids=["backend", "devices"],
)
def test_missing_backend_or_device_is_reported(variables, message):
    if "JAX_PLATFORMS" in variables:
        pytest.importorskip("jax")
    done = subprocess.run(
        [sys.executable, "-m", "relative_attention", "translate", "anything"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )
    check_refused((done.returncode, done.stdout, done.stderr), message)


def test_missing_package_is_reported_in_one_line(run, monkeypatch):
    def without_it():
        raise ModuleNotFoundError("No module named 'x'", name="x")

    monkeypatch.setattr("relative_attention.zoo.zoo_recipes", without_it)
    status, _, err = run("list")
    assert status == 1
    assert "needs the package x, which is not installed" in err


WITHOUT = """
import sys

class Nothing:
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Nothing())
from relative_attention.cli import main

for line in sys.stdin:
    print(">", line.strip(), file=sys.stderr)
    try:
        main(line.split())
    except SystemExit as leaving:
        assert not leaving.code, line
"""
# What `pip install keras jax` and this package `--no-deps` do not install.
MISSING = (
    "tabulate,yaml,sentencepiece,sacrebleu,sacremoses,safetensors,sentencex,"
    "tensorboard,tensorflow_text,keras_hub,keras_nlp,matplotlib,starlette"
)
COMMANDS = """
--version
--help
demo
data wmt14_en_de
train small_relative
study table1
distill small_relative --teachers a
average a
translate tatoeba_en_de
score tatoeba_en_de --source setup.py --target setup.py
evaluate README.md --reference README.md
plot tatoeba_en_de
export --format saved_model tatoeba_en_de out
serve tatoeba_en_de
convert tensor2tensor a --hparams b --output c
benchmark
list
"""


def test_no_command_is_a_traceback_with_the_layers_alone(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, MISSING],
        input=COMMANDS.strip(),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("relative-attention ")
    _, *answers = done.stderr.partition("> --help")[2].split("\n> ")
    assert len(answers) == COMMANDS.strip().count("\n") - 1
    for answer in answers:
        _, *lines = answer.strip().splitlines()
        assert lines[-1].startswith("relative-attention: "), answer


def test_error_that_quotes_a_long_line_is_short(run):
    status, _, err = run("train", "small_relative", "x" * 100_000)
    assert status == 1 and err.count("\n") == 1
    assert len(err) < 2000


# === Interrupts ===


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("train {recipe} --output r", "relative-attention train --resume r`."),
        (
            "distill {recipe} --teachers a",
            "Rerun the same command to resume.\n",
        ),
        # Twice, it would delete what there is by then.
        (
            "distill {recipe} --teachers a --overwrite",
            "Rerun the same command, without --overwrite, to resume.\n",
        ),
        ("demo", "Interrupted.\n"),
    ],
)
def test_interrupt_exits_with_130_and_says_how_to_resume(
    words, hint, run, recipe_file, monkeypatch
):
    def interrupt(*arguments, **keywords):
        raise KeyboardInterrupt

    for name in ("runs.train", "runs.distill", "cli.demo.run_demo"):
        monkeypatch.setattr(f"relative_attention.{name}", interrupt)
    status, out, err = run(*words.format(recipe=recipe_file).split())
    assert (status, out) == (130, "")
    assert hint in err
