"""`list` and `--help`: quick, narrow, and about commands that there are."""

import re
import shlex
import subprocess
import sys

import pytest

import relative_attention as ra
from relative_attention.cli import main
from relative_attention.cli import parse
from relative_attention.zoo import zoo_recipes

COMMANDS = (
    "demo",
    "data",
    "train",
    "study",
    "distill",
    "average",
    "translate",
    "score",
    "evaluate",
    "plot",
    "export",
    "serve",
    "convert tensor2tensor",
    "convert opennmt-tf",
    "benchmark",
    "list",
)
MAIN = """
import sys
from relative_attention.cli import main
try:
    status = main()
except SystemExit as leaving:
    status = leaving.code
loaded = {"keras", "tensorflow", "torch", "jax"} & set(sys.modules)
assert not loaded, loaded
sys.exit(status)
"""


@pytest.mark.parametrize("words", [["list"], ["train", "--help"]], ids=" ".join)
def test_nothing_slow_is_imported(words):
    command = [sys.executable, "-c", MAIN, *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "small_relative" in done.stdout


def test_package_runs_as_a_module():
    command = [sys.executable, "-m", "relative_attention", "--version"]
    shown = subprocess.run(command, capture_output=True, text=True).stdout
    assert shown == f"relative-attention {ra.__version__}\n"


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_list_is_no_wider_than_the_terminal(columns, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    status, out, _ = run("list")
    assert status == 0
    assert max(map(len, out.splitlines())) <= columns
    joined = " ".join(out.split())
    for name in zoo_recipes():
        last_word = ra.find_recipe(name).description.split()[-1]
        assert name in joined and last_word in joined


def help_of(command, capsys):
    with pytest.raises(SystemExit) as raised:
        main([*command.split(), "--help"])
    assert raised.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_example_is_a_command_that_there_is(command, capsys):
    example = help_of(command, capsys).split("example:")[1]
    lines = re.findall(r"relative-attention (.*)", example)
    assert lines
    for line in lines:
        words = re.split(r" [<>] ", line)[0]
        options = parse(shlex.split(words))
        assert options.command == command.split()[0]
        if command == "study":
            ra.find_study(options.study).override(options.overrides)
        if command == "train" and not options.resume:
            recipe = ra.find_recipe(options.recipe)
            recipe.override(options.overrides)


def test_usage_says_that_overrides_may_be_left_out(capsys):
    text = help_of("train", capsys)
    assert "RECIPE [section.key=value ...]" in text
    assert "--resume DIR" in text


@pytest.mark.parametrize("backend", ["nonsense", "no.such", "openvino"])
def test_backend_that_is_missing_is_one_line(backend, run, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", backend)
    status, out, err = run("translate", "anything")
    assert (status, out) == (1, "")
    assert "Keras cannot start" in err and repr(backend) in err
    assert err.count("\n") == 1


def test_backend_of_the_settings_is_looked_for(run, tmp_path, monkeypatch):
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    (tmp_path / "keras.json").write_text('{"backend": "nonsense"}')
    status, _, err = run("translate", "anything")
    assert status == 1
    assert "keras.json, is 'nonsense'" in err


def test_package_that_is_missing_is_one_line(run, monkeypatch):
    def without_it():
        raise ModuleNotFoundError("No module named 'x'", name="x")

    monkeypatch.setattr("relative_attention.zoo.zoo_recipes", without_it)
    status, _, err = run("list")
    assert status == 1
    assert "needs the package x, which is not installed" in err
