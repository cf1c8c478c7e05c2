"""A position encoding of a user's module: trained, saved, found again."""

import importlib
import json
import sys

import numpy as np
import pytest
import yaml

import relative_attention as ra
from tests.small_models import SOURCES
from tests.small_models import id_batches
from tests.small_models import make_translator
from tests.small_run import RECIPE

MODULE = """
from keras import ops

import relative_attention as ra


class LogBias(ra.positions.PositionEncoding):
    def __init__(self, scale=1.0):
        self.scale = scale

    def build(self, layer, bidirectional):
        layer.slopes = layer.add_weight(
            name="slopes", shape=(layer.num_heads, 1, 1), initializer="ones"
        )

    def logits(self, layer, query, query_positions, key_positions):
        distance = key_positions[None, :] - query_positions[:, None]
        distance = ops.cast(ops.abs(distance), query.dtype)
        slopes = ops.cast(self.scale * layer.slopes, query.dtype)
        return -slopes[None] * ops.log(1 + distance)

    def get_config(self):
        return {"scale": self.scale}
"""
NAME = "module_of_mine"
ENCODING = f"{NAME}:LogBias(scale=2.0)"
# All that take a model.
COMMANDS = [
    command.split()
    for command in (
        "translate run --input lines",
        "evaluate run --source lines --reference lines",
        "score run --source lines --target lines",
        "plot run --sentence one",
        "export --format model run out",
        "export --format saved_model run out",
        "serve run",
        "average run",
        "train run --resume",
        "distill small_relative --teachers run --output out",
    )
]
LINES = ["one two three", "seven"]


@pytest.fixture
def module(elsewhere, monkeypatch):
    """The working directory has the module, which can be imported."""
    (elsewhere / f"{NAME}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(elsewhere)
    yield elsewhere
    sys.modules.pop(NAME, None)


def test_model_is_loaded_with_its_module(module):
    importlib.import_module(NAME)
    translator = make_translator(position_encoding=ENCODING)
    ra.save_translator(translator, "model")
    ((inputs, _),) = id_batches(translator, len(SOURCES))
    expected = np.array(translator.model(inputs))
    # As in a process that has not imported it.
    del sys.modules[NAME]
    with pytest.raises(ra.InputError, match=f"needs the module {NAME}"):
        ra.load_translator("model")
    model = ra.load_translator("model", module=NAME).model
    encoding = model.encoder_blocks[0].self_attention.position_encoding
    assert encoding.scale == 2
    np.testing.assert_array_equal(model(inputs), expected)


def test_weight_without_a_name_is_refused(module):
    path = module / f"{NAME}.py"
    path.write_text(MODULE.replace('name="slopes", ', ""))
    importlib.import_module(NAME)
    with pytest.raises(ra.InputError, match="must give each weight a `name`"):
        make_translator(position_encoding=ENCODING)


@pytest.fixture
def folder(module, corpus):
    """The working directory, with the module and a run of a recipe."""
    model = {**RECIPE["model"], "position_encoding": ENCODING}
    training = {**RECIPE["training"], "steps": 1}
    recipe = {**RECIPE, "model": model, "training": training}
    (module / "mine.yaml").write_text(yaml.safe_dump(recipe))
    # A file that names a module does not import it.
    for load, argument in (
        (ra.find_recipe, "mine.yaml"),
        (
            ra.Recipe.from_mapping(RECIPE).override,
            [f"model.position_encoding={ENCODING}"],
        ),
    ):
        with pytest.raises(ra.InputError, match=f"`--module {NAME}`"):
            load(argument)
    importlib.import_module(NAME)
    ra.train(
        ra.find_recipe("mine.yaml"),
        module / "run",
        data_directory=corpus,
        report=lambda line: None,
    )
    return module


@pytest.mark.large
def test_own_encoding_is_loaded_with_its_module(folder, run_python):
    translator = ra.load_translator("run")
    block = translator.model.encoder_blocks[0]
    assert block.self_attention.position_encoding.scale == 2
    saved = json.loads((folder / "run" / "config.json").read_text())
    assert saved["model"]["position_encoding"] == ENCODING
    translator.model.save("model.keras")
    expected = translator.translate(LINES)

    script = f"""
import contextlib, io, json, sys
import keras
import relative_attention as ra
from relative_attention.cli import main, parse

def refused(load):
    try:
        load()
    except Exception as error:
        assert "needs the module {NAME}" in str(error), error
    else:
        raise AssertionError("it was loaded")

refused(lambda: ra.load_translator("run"))
refused(lambda: ra.find_recipe("run"))
refused(lambda: keras.saving.load_model("model.keras"))
commands = {COMMANDS}
with contextlib.redirect_stdout(io.StringIO()):
    for command in commands:
        assert main(command) == 1, command
assert "{NAME}" not in sys.modules
for command in commands:
    assert parse([*command, "--module", "{NAME}"]).module == ["{NAME}"]
assert main([*commands[0], "--module", "{NAME}"]) == 0
sys.stdout.flush()
with contextlib.redirect_stdout(io.StringIO()) as scores:
    assert main([*commands[1], "--module", "{NAME}"]) == 0
assert "BLEU" in scores.getvalue()
translator = ra.load_translator("run", module="{NAME}")
model = keras.saving.load_model("model.keras")
assert model.config == translator.model.config
print(json.dumps(translator.translate({LINES})))
"""
    (folder / "lines").write_text("one two three\nseven\n")
    *printed, last = run_python(script, cwd=folder).splitlines()
    assert json.loads(last) == printed == expected


def test_error_is_one_line_when_a_module_cannot_be_imported(
    tmp_path, monkeypatch, run
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken_module.py").write_text("1 / 0")
    for name, problem in (
        ("broken_module", "ZeroDivisionError"),
        ("no_such_module", "ModuleNotFoundError"),
    ):
        status, _, errors = run(
            *("train", "small_relative", "--output", "run"),
            *("--module", name),
        )
        assert status == 1 and errors.count("\n") == 1
        assert f"module {name!r} cannot be imported" in errors
        assert problem in errors
    assert not (tmp_path / "run").exists()
