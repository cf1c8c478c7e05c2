"""What people type into recipes by mistake is answered in a line."""

import dataclasses
import random

import pytest
import yaml

import relative_attention as ra
from relative_attention.models import TransformerConfig
from relative_attention.runs.recipe import SECTIONS

SEED = 1803
# As YAML: of every type, out of every range, and no YAML at all.
VALUES = (
    "",
    "null",
    "true",
    '"false"',
    "high",
    "-1",
    "0",
    "2024",
    "0.5",
    "1e400",
    ".nan",
    "-.inf",
    "1" + "0" * 40,
    "9" * 5000,
    "2024-13-41",
    "[",
    "[1, 2]",
    "{a: 1}",
    "{[a]: 1}",
    "*.en",
    "&a [*a]",
    "my #1.en",
    "!!python/object:os.system x",
    "!!int x",
    "!!bool x",
    "!!binary x",
    "'a\0b'",
    '"\\0"',
    "\udcff",
    "'",
    "%",
    "@",
    "[" * 500,
)
MINIMAL = {
    "name": "mine",
    "model": {"preset": "transformer_tiny"},
    "training": {"steps": 1},
}
REST = "model: {preset: transformer_tiny}\ntraining: {steps: 1}"
KEYS = [
    *(
        f"{section}.{field.name}"
        for section, cls in SECTIONS.items()
        for field in dataclasses.fields(cls)
    ),
    *(f"model.{field.name}" for field in dataclasses.fields(TransformerConfig)),
    "model.preset",
    "model.nothing",
    "nothing.at_all",
]


def check(make, argument):
    """It gives a recipe, or the error that is for users."""
    try:
        recipe = make(argument)
    except ra.InputError as error:
        assert str(error)
        return
    # What is taken can be written and read again.
    text = yaml.safe_dump(recipe.to_mapping(), allow_unicode=True)
    assert ra.Recipe.from_mapping(yaml.safe_load(text)) == recipe


def test_any_override_is_taken_or_refused():
    recipe = ra.Recipe.from_mapping(MINIMAL)
    chosen = random.Random(SEED)
    for key in KEYS:
        for value in chosen.sample(VALUES, 8):
            check(recipe.override, [f"{key}={value}"])


def test_any_file_is_read_or_refused(tmp_path):
    chosen = random.Random(SEED)
    path = tmp_path / "mine.yaml"
    texts = [*VALUES, "1: 2", "model: {1: 2}", "training: {null: 1}", "? [a]"]
    for key in chosen.sample(KEYS, 30):
        section, _, name = key.partition(".")
        for value in chosen.sample(VALUES, 3):
            texts.append(f"{section}:\n  {name}: {value}\n")
    for key in ("name", "description", "model", "data"):
        texts += [f"{key}: {value}" for value in VALUES]
    for text in texts:
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
        check(ra.Recipe.load, path)


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("model.dropout=high", "`model.dropout` must be float"),
        ("model.dropout=[", "value of `model.dropout`, '\\[', is not YAML"),
        (
            "model.normalize_first='false'",
            "`model.normalize_first` must be bool",
        ),
        ("model.num_heads=2.5", "`model.num_heads` must be int"),
        ("training.minutes=.nan", "must be a finite number"),
        ("training.seed=-1", "`training.seed` must be at least 0"),
        ("training.steps=1" + "0" * 30, "must be at most 2,147,483,647"),
        (f"training.steps={'[' * 1000}", "nested too deeply"),
    ],
    ids=lambda value: value[:30],
)
def test_override_of_the_wrong_kind_is_named(assignment, message):
    recipe = ra.Recipe.from_mapping(MINIMAL)
    with pytest.raises(ra.InputError, match=message):
        recipe.override([assignment])


@pytest.mark.parametrize(
    "name",
    ["2024", "my #1.en", "*.en", "[draft].en", "a: b", "1e5", "2024-01-02"],
)
def test_name_of_a_file_is_taken_as_it_stands(name, tmp_path):
    recipe = ra.Recipe.from_mapping(MINIMAL).override([f"data.source={name}"])
    assert recipe.data.source == name
    recipe.save(tmp_path / "recipe.yaml")
    assert ra.Recipe.load(tmp_path / "recipe.yaml") == recipe


def test_name_of_a_file_may_be_in_quotes_or_null():
    recipe = ra.Recipe.from_mapping(MINIMAL)
    for text, value in (("'a b'", "a b"), ('"null"', "null"), ("null", None)):
        changed = recipe.override([f"data.source={text}"])
        assert changed.data.source == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1: 2", "Unknown key '1'\\."),
        ("[" * 1000, "nested too deeply"),
        ("data: {source: 2024}", "`data.source` must be str.* in quotes"),
        ("model: {preset: a}\nmodel: {preset: b}", "'model' is there twice"),
        (
            f"name: ../../elsewhere\n{REST}",
            "`name` must be the name of a folder",
        ),
        (f"name: ''\n{REST}", "`name` must be the name of a folder"),
        (
            "model: {preset: transformer_tiny, normalize_first: 'false'}",
            "`model.normalize_first` must be bool. Received: 'false'",
        ),
    ],
    ids=["key", "nested", "source", "twice", "path", "empty", "bool"],
)
def test_file_of_the_wrong_kind_is_named(text, message, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ra.InputError, match=message):
        ra.find_recipe(str(path))


def values(recipe, keys):
    return {key: getattr(recipe.training, key) for key in keys}


def test_other_preset_brings_its_training():
    recipe = ra.Recipe.from_mapping(MINIMAL)
    expected = ra.preset_training("t2t_transformer_relative")
    changed = recipe.override(["model.preset=t2t_transformer_relative"])
    assert values(changed, expected) == expected
    # In whatever order, and over several overrides.
    for assignments in (
        ["training.warmup_steps=7", "model.preset=t2t_transformer_relative"],
        ["model.preset=t2t_transformer_relative", "training.warmup_steps=7"],
    ):
        for changed in (
            recipe.override(assignments),
            recipe.override(assignments[:1]).override(assignments[1:]),
        ):
            assert values(changed, expected) == {**expected, "warmup_steps": 7}


def test_other_preset_keeps_what_the_recipe_says():
    recipe = ra.Recipe.from_mapping(
        {**MINIMAL, "training": {"steps": 1, "adam_beta_2": 0.98}}
    )
    changed = recipe.override(["model.preset=t2t_transformer_relative"])
    assert changed.training.adam_beta_2 == 0.98
    assert changed.training.warmup_steps == 8000


def test_other_preset_brings_its_training_to_a_saved_recipe(tmp_path):
    recipe = ra.Recipe.from_mapping(MINIMAL).override(["training.steps=9"])
    recipe.save(tmp_path / "recipe.yaml")
    saved = ra.Recipe.load(tmp_path / "recipe.yaml")
    expected = ra.preset_training("t2t_transformer_relative")
    changed = saved.override(["model.preset=t2t_transformer_relative"])
    assert values(changed, expected) == expected
    assert changed.training.steps == 9
