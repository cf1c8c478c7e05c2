"""Recipes: what is read, what is refused, and with what words."""

import dataclasses

import pytest
import yaml

import relative_attention as ra
from relative_attention.corpora.recipe_text import find_corpus
from relative_attention.zoo import zoo_recipes


@pytest.mark.parametrize("name", zoo_recipes())
def test_every_recipe_of_the_zoo_is_valid(name):
    recipe = ra.find_recipe(name)
    assert recipe.name == name
    assert recipe.description


def test_tiny_recipes_have_the_published_sizes():
    for name, encoding in (
        ("multi30k_en_de_tiny_relative", "relative"),
        ("multi30k_en_de_tiny", "sinusoidal"),
    ):
        recipe = ra.find_recipe(name)
        config = recipe.model_config(recipe.vocabulary.size)
        assert config.position_encoding == encoding
        assert (config.num_encoder_layers, config.num_decoder_layers) == (4, 4)
        assert (config.hidden_dim, config.intermediate_dim) == (128, 256)
        assert (config.num_heads, config.dropout) == (4, 0.3)
        assert config.share_embeddings == "all"
        assert recipe.vocabulary == dataclasses.replace(
            recipe.vocabulary, size=10000, joint=True
        )


def test_saved_recipe_reads_the_same(recipe, tmp_path):
    recipe.save(tmp_path / "recipe.yaml")
    assert ra.Recipe.load(tmp_path / "recipe.yaml") == recipe


def test_override_replaces_one_value(recipe):
    changed = recipe.override(
        ["training.steps=7", "model.dropout=0.2", "data.source=null"]
    )
    assert changed.training.steps == 7
    assert changed.model["dropout"] == 0.2
    assert changed.data.source is None
    assert changed.vocabulary == recipe.vocabulary


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("training.stepss=1", "'training.stepss'.*mean 'training.steps'"),
        ("trainin.steps=1", "section 'trainin'.*mean 'training'"),
        ("model.hiden_dim=1", "'model.hiden_dim'.*mean 'model.hidden_dim'"),
        ("model.vocabulary_size=1", "Unknown key 'model.vocabulary_size'"),
        ("training.steps", "must be `section.key=value`"),
        ("training.steps=many", "`training.steps` must be int or null"),
        ("training.steps=0", "`training.steps` must be at least 1"),
        ("vocabulary.joint=7", "`vocabulary.joint` must be bool"),
        ("training.precision=half", "`training.precision` must be one of"),
        ("training.steps=null", "`training.steps` or `training.epochs`"),
        ("training.average_last=9", "must not exceed"),
        ("training.label_smoothing=1", "`training.label_smoothing` must be in"),
        (
            "data.target_language=de data.tokenized=true",
            "`data.target_language`.* tokenised already .*'de'",
        ),
        ("training.adam_epsilon=0", "adam_epsilon` must be positive"),
        ("training.minutes=0", "`training.minutes` must be positive"),
        ("training.learning_rate_scale=0", "scale` must be positive"),
        ("decoding.num_beams=0", "`decoding.num_beams` must be at least 1"),
        ("model.dropout=2", "`dropout` must be a rate"),
        ("model.preset=transformer_tny", "mean 'transformer_tiny'"),
    ],
)
def test_wrong_value_is_refused_by_name(assignment, message, recipe):
    with pytest.raises(ra.InputError, match=message):
        recipe.override(assignment.split())


def test_unknown_recipe_names_the_nearest():
    with pytest.raises(ra.InputError, match="mean 'multi30k_en_de_tiny'"):
        ra.find_recipe("multi30k_en_de_tinny")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: [", "is not YAML"),
        ("just a word", "must hold `key: value`"),
        ("model: 3", "must hold `key: value`"),
        ("modle: {}", "Unknown key 'modle'.*mean 'model'"),
        ("training: {steps: 1}", "`model.preset` must name"),
    ],
    ids=["yaml", "word", "section", "key", "preset"],
)
def test_wrong_file_is_refused(text, message, tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text(text)
    with pytest.raises(ra.InputError, match=message):
        ra.find_recipe(str(path))


def test_scientific_notation_is_a_number(recipe):
    changed = recipe.override(["training.learning_rate_scale=1e-3"])
    assert changed.training.learning_rate_scale == 0.001


@pytest.fixture
def multi30k(tmp_path):
    folder = tmp_path / "data" / "multi30k"
    folder.mkdir(parents=True)
    for part in ("train", "val", "test_2016_flickr"):
        (folder / f"{part}.en.gz").touch()
        (folder / f"{part}.de").touch()
    return folder


@pytest.mark.parametrize("nested", [False, True])
def test_corpus_is_found_in_the_data_directory(nested, multi30k):
    section = ra.find_recipe("multi30k_en_de_tiny").data
    found = find_corpus(section, multi30k.parent if nested else multi30k)
    assert found.source == str(multi30k / "train.en.gz")
    assert found.test_target == str(multi30k / "test_2016_flickr.de")


def test_corpus_is_found_by_environment_variable(multi30k, monkeypatch):
    monkeypatch.setenv("RELATIVE_ATTENTION_DATA", str(multi30k.parent))
    section = ra.find_recipe("multi30k_en_de_tiny").data
    assert find_corpus(section).target == str(multi30k / "train.de")


def test_missing_corpus_says_where_to_get_it(tmp_path, monkeypatch):
    monkeypatch.delenv("RELATIVE_ATTENTION_DATA", raising=False)
    section = ra.find_recipe("multi30k_en_de_tiny").data
    with pytest.raises(ra.InputError) as raised:
        find_corpus(section, tmp_path)
    for words in ("train.en", str(tmp_path), "multi30k", "--data", "GitHub"):
        assert words in str(raised.value)


def test_half_a_pair_is_refused(recipe):
    section = dataclasses.replace(recipe.data, target=None)
    with pytest.raises(ra.InputError, match="`data.target` must both name"):
        find_corpus(section)


def test_training_is_the_presets_where_the_recipe_is_silent():
    recipe = ra.Recipe.from_mapping(
        {
            "name": "mine",
            "model": {"preset": "t2t_transformer_relative"},
            "training": {"steps": 1, "warmup_steps": 16000},
        }
    )
    expected = ra.preset_training("t2t_transformer_relative")
    expected["warmup_steps"] = 16000
    for key, value in expected.items():
        assert getattr(recipe.training, key) == value
    assert ra.Recipe.from_mapping(recipe.to_mapping()) == recipe


GONE = {
    "vocabulary.sampling": ("0.0", "0.1"),
    "training.bidirectional_steps": ("0", "1000"),
    "training.consistency": ("null", "r_drop"),
    "training.consistency_weight": ("null", "5.0"),
    "training.consistency_from": ("0", "100"),
    "training.cut_probability": ("0.05", "0.1"),
}


@pytest.mark.parametrize("key", GONE)
def test_key_that_is_gone_is_ignored_where_it_said_nothing(
    key, recipe, tmp_path
):
    neutral, other = GONE[key]
    assert recipe.override([f"{key}={neutral}"]) == recipe
    with pytest.raises(ra.InputError, match=f"`{key}` is gone.*51ab9de"):
        recipe.override([f"{key}={other}"])
    section, name = key.split(".")
    mapping = recipe.to_mapping()
    for value, is_read in ((neutral, True), (other, False)):
        mapping[section][name] = yaml.safe_load(value)
        path = tmp_path / "recipe.yaml"
        path.write_text(yaml.safe_dump(mapping))
        if is_read:
            assert ra.Recipe.load(path) == recipe
            continue
        with pytest.raises(ra.InputError, match="51ab9de") as error:
            ra.Recipe.load(path)
        assert "\n" not in str(error.value)
