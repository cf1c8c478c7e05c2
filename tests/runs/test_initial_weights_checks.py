"""What a recipe cannot start from, and what makes no difference."""

import pytest

import relative_attention as ra
from relative_attention.runs.initial_weights import find_initial_weights
from relative_attention.saving.model_directory import load_config
from tests.runs.old_models import NEW_TEXT
from tests.runs.old_models import OLD_TEXT
from tests.runs.old_models import make
from tests.runs.old_models import recipe_of
from tests.runs.old_models import start_of
from tests.runs.old_models import subwords
from tests.runs.old_models import tokens
from tests.runs.old_models import vocabulary


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "old"


def test_list_of_tokens_comes_along_where_texts_are_tokenised(directory):
    make(directory, tokens(None))
    _, initial = start_of(directory, tokenized=True)
    assert initial.vocabularies[0].tokens == tokens(None).tokens


@pytest.mark.parametrize(
    "old",
    [
        lambda: tokens(vocabulary(OLD_TEXT).model),
        lambda: vocabulary(OLD_TEXT),
    ],
    ids=["pieces", "model"],
)
def test_pieces_are_no_vocabulary_of_tokenised_texts(directory, old):
    make(directory, old())
    with pytest.raises(ra.InputError, match="is no list of tokens with an end"):
        start_of(directory, tokenized=True)


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory):
    """A model directory that is only read."""
    directory = tmp_path_factory.mktemp("start") / "old"
    make(directory, vocabulary(OLD_TEXT))
    return directory


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_dim", 16),
        ("intermediate_dim", 24),
        ("num_encoder_layers", 2),
        ("num_decoder_layers", 3),
        ("num_heads", 4),
        ("max_relative_position", 5),
        ("share_relations_across_heads", False),
        ("share_embeddings", "target"),
        ("normalize_first", False),
        ("attention_bias", True),
        ("position_encoding", "sinusoidal"),
        ("key_dim", 3),
    ],
)
def test_another_architecture_is_refused(unchanged, field, value):
    old, _ = load_config(unchanged)
    before = 4 if field == "key_dim" else getattr(old, field)
    with pytest.raises(
        ra.InputError,
        match=f"`model.{field}` is {value!r} in the recipe and {before!r}",
    ):
        start_of(unchanged, **{field: value})


def test_what_has_no_effect_may_differ(directory):
    fields = {"position_encoding": "sinusoidal"}
    make(directory, vocabulary(OLD_TEXT), **fields)
    start_of(directory, **fields, key_dim=4, max_relative_position=9)


@pytest.mark.parametrize("joint", [True, False], ids=["joint", "two"])
def test_other_number_of_vocabularies_is_refused(directory, joint):
    old = vocabulary(OLD_TEXT)
    target = old if joint else vocabulary(NEW_TEXT)
    make(directory, old, target, joint=joint)
    with pytest.raises(
        ra.InputError,
        match=f"`vocabulary.joint` is {not joint} in the recipe and {joint}",
    ):
        start_of(directory, joint=not joint)


@pytest.mark.parametrize(
    ("old", "from_start", "message"),
    [
        (lambda: tokens(None), True, "`vocabulary.from_start: false`"),
        (lambda: tokens(None), False, "without a SentencePiece model"),
        (subwords, False, "`vocabulary.from_start: true`"),
    ],
    ids=["tokens", "words", "subwords"],
)
def test_vocabulary_that_cannot_be_used_is_refused(
    directory, old, from_start, message
):
    make(directory, old())
    with pytest.raises(ra.InputError, match=message):
        start_of(directory, from_start=from_start)


def test_missing_models_are_refused(directory, tmp_path):
    with pytest.raises(ra.InputError, match="No model to start from"):
        start_of(directory)
    make(directory, vocabulary(OLD_TEXT))
    recipe = ra.Recipe.from_mapping(recipe_of(directory))
    with pytest.raises(ra.InputError, match="the folder of this run"):
        find_initial_weights(recipe, tmp_path / "x" / ".." / "old")
    (directory / "model.safetensors").unlink()
    with pytest.raises(ra.InputError, match="No weights at"):
        start_of(directory)
