"""Recipes: what is read, what is refused, and with what words."""

import dataclasses
import pathlib
import random
import runpy

import pytest
import yaml

import relative_attention as ra
from relative_attention.models import TransformerConfig
from relative_attention.recipes.recipe import SECTIONS
from relative_attention.schema import keys_of
from relative_attention.schema import types_of

DOCS = pathlib.Path(__file__).parents[2] / "docs"
MODELS = pathlib.Path(__file__).parents[2] / "models"


def test_override_replaces_one_value_and_all_are_saved(recipe, tmp_path):
    changed = recipe.override(
        [
            "training.steps=7",
            "model.dropout=0.2",
            "data.source=null",
            "training.learning_rate_scale=1e-3",
        ]
    )
    assert changed.training.steps == 7
    assert changed.model["dropout"] == 0.2
    assert changed.data.source is None
    assert changed.training.learning_rate_scale == 0.001
    assert changed.vocabulary == recipe.vocabulary
    changed.save(tmp_path / "recipe.yaml")
    assert ra.Recipe.load(tmp_path / "recipe.yaml") == changed


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("training.stepss=1", "'training.stepss'.*mean 'training.steps'"),
        ("trainin.steps=1", "section 'trainin'.*mean 'training'"),
        ("training.steps", "must be `section.key=value`"),
        ("training.steps=0", "`training.steps` must be at least 1"),
        ("training.steps=1" + "0" * 30, "must be at most 2,147,483,647"),
        (f"training.steps={'[' * 1000}", "nested too deeply"),
        ('training.start_from="a\\0b"', "must not have a NUL"),
        ("training.devices=2000", "must be at most 1,024"),
        ("decoding.no_repeat_ngram=1000", "must be at most 100"),
        ("decoding.max_source_length=999999999", "must be at most 100,000"),
        ("model.num_encoder_layers=1000000000", "must be at most 1,000"),
        (
            "model.position_encoding=relative(max_relative_position=1000000)",
            "`position_encoding: max_relative_position` must be at most 100",
        ),
        (
            f"model.position_encoding=relative(a={'-' * 900}1)",
            "must be a name, or a name with arguments",
        ),
        ("training.steps=1:30", "must be int or null. Received: '1:30'"),
        ("training.steps=null", "`training.steps` or `training.epochs`"),
        ("training.precision=half", "`training.precision` must be one of"),
        ("training.average_last=9", "must not exceed"),
        ("training.minutes=.nan", "must be a finite number"),
        (
            "training.average_epochs=2 training.average_last=3",
            "average_last` and `training.average_epochs` are 2 ways to average",
        ),
        (
            "data.target_language=de data.tokenized=true",
            "`data.target_language`.* pre-tokenized texts .*'de'",
        ),
        ("model.dropout=2", "`model.dropout` must be in"),
        ("model.dropout=high", "`model.dropout` must be a number or"),
        ("model.normalize_first='false'", "`model.normalize_first` must be b"),
        ("model.preset=transformer_tny", "mean 'transformer_tiny'"),
        ("vocabulary.source_model=a", "are for `vocabulary.joint: false`"),
        (
            "vocabulary.joint=false vocabulary.source_model=a",
            "give both `vocabulary.source_model` and",
        ),
        (
            "vocabulary.joint=false vocabulary.model=a",
            "give both .* and no `vocabulary.model`",
        ),
        (
            "vocabulary.joint=false model.share_embeddings=all",
            "`model.share_embeddings: all` needs one vocabulary",
        ),
        (
            "vocabulary.model=a training.start_from=b",
            "`vocabulary.from_start: false`",
        ),
    ],
    ids=lambda value: value[:30],
)
def test_wrong_value_is_refused_by_name(assignment, message, recipe):
    with pytest.raises(ra.InputError, match=message):
        recipe.override(assignment.split())


# Numbers without an upper bound of their own, which change neither memory nor
# time: they end training, or are compared, multiplied or seeds.
COST_NOTHING = {
    *("data.held_out", "data.max_length"),
    *("training.steps", "training.epochs", "training.minutes"),
    *("training.validate_every", "training.bleu_every"),
    *("training.learning_rate", "training.learning_rate_scale"),
    *("training.warmup_steps", "training.adam_epsilon"),
    *("training.gradient_clip", "training.seed", "training.early_stopping"),
    *("training.save_every", "training.save_minutes"),
    # A run that keeps more than the disk holds is refused.
    *("training.keep_checkpoints", "training.average_last"),
    "training.average_epochs",
    "decoding.trained_source_length",
    # An id of the vocabulary.
    *("model.layer_norm_epsilon", "model.start_token_id"),
}


def test_every_number_has_an_upper_bound_or_costs_nothing():
    unbounded = {
        f"{section}.{name}"
        for section, cls in [*SECTIONS.items(), ("model", TransformerConfig)]
        for name, rule in keys_of(cls).items()
        if {int, float} & {*types_of(cls, "", name)}
        and rule.at_most is None
        and not rule.is_fraction
    }
    assert unbounded == COST_NOTHING


def test_module_that_a_file_names_is_not_imported(tmp_path, monkeypatch):
    (tmp_path / "stranger.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "my.yaml"
    path.write_text(REST.replace("tiny", "tiny, position_encoding: stranger:A"))
    with pytest.raises(ra.InputError, match="`--module stranger`"):
        ra.find_recipe(path)


REST = "model: {preset: transformer_tiny}\ntraining: {steps: 1}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: [", "is not YAML"),
        ("[" * 1000, "nested too deeply"),
        ("model: 3", "must hold `key: value`"),
        ("modle: {}", "Unknown key 'modle'.*mean 'model'"),
        ("training: {steps: 1}", "`model.preset` must name"),
        ("data: {source: 2024}", "`data.source` must be str.* in quotes"),
        ("model: {preset: a}\nmodel: {preset: b}", "'model' is there twice"),
        (f"name: ../../elsewhere\n{REST}", "must be the name of a folder"),
        # A few lines of these would fill the memory.
        ("a: &a {x: 1}\nb: *a", r"alias \*a must be written out \(line 2, "),
        ("a: {<<: {x: 1}}", "`<<` must be written out"),
        ("a: &a [*a]", r"alias \*a must be written out"),
        (f"derived: [[x]]\n{REST}", "`derived` must be a list of keys"),
    ],
    ids=lambda value: value[:30],
)
def test_wrong_file_is_refused(text, message, tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text(text)
    with pytest.raises(ra.InputError, match=message):
        ra.find_recipe(str(path))


SEED = 1803
# As YAML: of every type, out of every range, and no YAML at all.
VALUES = (
    *"null true high -1 0 2024 0.5 1e400 .nan -.inf 2024-13-41 [ ' % @".split(),
    *("", '"false"', "1" + "0" * 40, "9" * 5000, "[" * 500, "\udcff"),
    *("[1, 2]", "{a: 1}", "{[a]: 1}", "*.en", "&a [*a]", "my #1.en"),
    *("!!int x", "!!bool x", "!!binary x", "!!python/object:os.system x"),
    *("'a\0b'", '"\\0"'),
)
MINIMAL = {
    "name": "mine",
    "model": {"preset": "transformer_tiny"},
    "training": {"steps": 1},
}
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
        for value in chosen.sample(VALUES, 5):
            check(recipe.override, [f"{key}={value}"])


def test_any_file_is_read_or_refused(tmp_path):
    chosen = random.Random(SEED)
    path = tmp_path / "mine.yaml"
    texts = [*VALUES, "1: 2", "model: {1: 2}", "training: {null: 1}", "? [a]"]
    for key in chosen.sample(KEYS, 15):
        section, _, name = key.partition(".")
        for value in chosen.sample(VALUES, 3):
            texts.append(f"{section}:\n  {name}: {value}\n")
    for key in ("name", "data"):
        texts += [f"{key}: {value}" for value in VALUES]
    for text in texts:
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
        check(ra.Recipe.load, path)


def test_file_names_are_used_literally(tmp_path):
    names = ["2024", "my #1.en", "*.en", "[draft].en", "a: b", "1e5"]
    expected = {"'a b'": "a b", '"null"': "null", "null": None}
    for text, value in {**dict(zip(names, names)), **expected}.items():
        minimal = ra.Recipe.from_mapping(MINIMAL)
        recipe = minimal.override([f"data.source={text}"])
        assert recipe.data.source == value
        assert recipe == minimal.replace({"data.source": value})
        recipe.save(tmp_path / "recipe.yaml")
        assert ra.Recipe.load(tmp_path / "recipe.yaml") == recipe


# === What follows from a preset ===


def test_training_values_change_with_the_preset(tmp_path):
    own = {"steps": 1, "adam_beta_2": 0.98}
    recipe = ra.Recipe.from_mapping({**MINIMAL, "training": own})
    recipe.save(tmp_path / "recipe.yaml")
    preset = "model.preset=t2t_transformer_relative"
    mine = "training.warmup_steps=7"
    # In whatever order, over several overrides, and when it was saved.
    for changed in (
        recipe.override([preset, mine]),
        recipe.override([mine, preset]),
        recipe.override([preset]).override([mine]),
        recipe.override([mine]).override([preset]),
        ra.Recipe.load(tmp_path / "recipe.yaml").override([preset, mine]),
    ):
        expected = ra.preset_training("t2t_transformer_relative")
        assert expected["warmup_steps"] == 8000
        for key, value in {**expected, **own, "warmup_steps": 7}.items():
            assert getattr(changed.training, key) == value


def test_committed_page_is_what_the_command_prints():
    reference = runpy.run_path(str(DOCS / "recipe_reference.py"))["reference"]
    page = reference()
    assert (DOCS / "guides" / "recipes.md").read_text("utf-8") == page, (
        "run `python docs/recipe_reference.py` and commit "
        "docs/guides/recipes.md"
    )
    for name, cls in SECTIONS.items():
        _, _, section = page.partition(f"## `{name}`\n")
        section = section.partition("\n## ")[0]
        for field in dataclasses.fields(cls):
            assert section.count(f"\n- **`{field.name}`** (") == 1
    assert "- **`hidden_dim`** (int, default `512`): " in page
    assert "- **`num_beams`** (int, default `4`): " in page


# === The paper's recipes ===

# Table 1, newstest2014.
BLEU = {
    "wmt14_en_de_base": 26.5,
    "wmt14_en_de_base_relative": 26.8,
    "wmt14_en_de_big": 27.9,
    "wmt14_en_de_big_relative": 29.2,
    "wmt14_en_fr_base": 38.2,
    "wmt14_en_fr_base_relative": 38.7,
    "wmt14_en_fr_big": 41.2,
    "wmt14_en_fr_big_relative": 41.5,
}


@pytest.mark.parametrize("name", BLEU)
def test_recipe_and_card_are_the_papers(name):
    recipe = ra.find_recipe(name)
    config = recipe.model_config(recipe.vocabulary.size)
    training, decoding = recipe.training, recipe.decoding
    big, french = "big" in name, "_fr_" in name
    # The sizes are those of the preset.
    assert config.hidden_dim == (1024 if big else 512)
    assert config.dropout == (0.3 if big and not french else 0.1)
    is_relative = config.position_encoding == "relative"
    assert is_relative == name.endswith("_relative")
    assert (recipe.vocabulary.size, recipe.vocabulary.joint) == (32768, True)
    assert training.steps == (300_000 if big else 100_000)
    assert training.batch_tokens == 4096
    assert training.effective_batch_tokens == 25_000
    assert (training.warmup_steps, training.learning_rate_scale) == (4000, 1)
    assert (training.adam_beta_2, training.label_smoothing) == (0.98, 0.1)
    # One is the last checkpoint alone, which is no average.
    assert training.average_last == (20 if big else 1)
    assert training.save_minutes == 10
    assert training.early_stopping == 0
    assert (decoding.num_beams, decoding.length_penalty) == (4, 0.6)
    card = (MODELS / name / "README.md").read_text("utf-8")
    words = " ".join(card.split())
    reported = f"paper reports {BLEU[name]} BLEU on newstest2014 (Table 1)."
    assert reported in words
    assert "Not trained yet" in card
    assert f"relative-attention data {recipe.data.corpus}\n" in card
    assert f"relative-attention train {name} --data data\n" in card
