"""Models that start from the weights of others, and what cannot."""

import dataclasses
import random
import shutil

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.models.weights import load_arrays
from relative_attention.models.weights import save_arrays
from relative_attention.models.weights import weight_name
from relative_attention.runs.distill import keeps_vocabulary
from relative_attention.runs.prepare import find_inputs
from relative_attention.runs.prepare import prepare_data
from relative_attention.runs.start_from import find_initial_weights
from relative_attention.runs.start_from import with_values_of_start
from tests.runs.conftest import assert_same_arrays

OLD_TEXT = ["the cat sat on the mat", "the hat of the cat"] * 20
NEW_TEXT = ["the mats of cats and hats 7", "the dog sat on the cat"] * 20
FIELDS = {
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "hidden_dim": 8,
    "intermediate_dim": 16,
    "num_heads": 2,
    "max_relative_position": 3,
}


def vocabulary(text, size=290):
    return ra.Vocabulary.train(text, size)


def subwords():
    lines = ["<pad>_", "<EOS>_", *"\\_u;0123456789thecatsonm "]
    return ra.SubwordVocabulary(
        "".join(f"'{line}'\n" for line in lines).encode()
    )


def tokens(tokenizer):
    pieces = ["▁the", "▁cat", "t", "▁", "s"]
    return ra.TokenVocabulary(
        ["<blank>", "</s>", "<s>", *pieces, "<unk>"], tokenizer
    )


def make(directory, source, target=None, **fields):
    """A model directory with weights that are all different."""
    target = target or source
    recipe = ra.Recipe.from_mapping(recipe_of(directory, **fields))
    model = model_of(recipe, source, target)
    random = np.random.default_rng(5)
    for weight in model.weights:
        weight.assign(random.normal(size=weight.shape))
    translator = ra.Translator(model, target, source_vocabulary=source)
    ra.save_translator(translator, directory)
    return model


def model_of(recipe, source, target):
    source_size = None if source is target else len(source)
    return ra.Transformer(recipe.model_config(len(target), source_size))


def recipe_of(
    directory, joint=True, from_start=True, tokenized=False, **fields
):
    return {
        "name": "new",
        "data": {"tokenized": tokenized},
        "vocabulary": {"joint": joint, "from_start": from_start, "size": 300},
        "model": {"preset": "transformer_tiny_relative", **FIELDS, **fields},
        "training": {"start_from": str(directory), "steps": 1},
    }


def start_of(directory, **options):
    recipe = ra.Recipe.from_mapping(recipe_of(directory, **options))
    return recipe, find_initial_weights(recipe, directory.with_name("new"))


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "old"


def started(directory, source=None, target=None, **options):
    """The new model, its initial arrays, and the lines of the report."""
    recipe, start = start_of(directory, **options)
    if source is None:
        source, target = start.vocabularies
    target = target or source
    model = model_of(recipe, source, target)
    initial = arrays_of(model)
    lines = []
    start.assign_to(model, source, target, lines.append)
    return model, initial, lines


def arrays_of(model):
    return {weight_name(w): np.array(w) for w in model.weights}


@pytest.mark.parametrize(
    "fields",
    [{}, {"share_embeddings": "none", "output_bias": True}],
    ids=["shared", "apart"],
)
def test_weights_are_equal_when_the_vocabulary_is_the_same(directory, fields):
    old = make(directory, vocabulary(OLD_TEXT), **fields)
    model, _, lines = started(directory, **fields, dropout=0.2)
    expected = arrays_of(old)
    for name, array in arrays_of(model).items():
        np.testing.assert_array_equal(array, expected[name])
    ids = np.array([[5, 260, 270, 1]])
    inputs = {"source_token_ids": ids, "target_token_ids": ids}
    np.testing.assert_array_equal(model(inputs), old(inputs))
    assert lines == [
        f"weights: {old.count_params():,}, started from {directory}",
        "vocabulary: that of the model started from",
    ]


def assert_rows(old_rows, rows, initial, old, new):
    """Rows of the pieces that both have, of spelt ones, and of the rest."""
    old_ids = {piece: i for i, piece in enumerate(old.pieces(range(len(old))))}
    counts = [0, 0, 0]
    for token_id, piece in enumerate(new.pieces(range(len(new)))):
        if piece in old_ids:
            counts[0] += 1
            expected = old_rows[old_ids[piece]]
        elif not set(piece) <= set(old_ids):
            counts[2] += 1
            expected = initial[token_id]
        else:
            counts[1] += 1
            # Longest first, as a person would do it.
            parts, rest = [], piece
            while rest:
                part = next(
                    rest[:end]
                    for end in range(len(rest), 0, -1)
                    if rest[:end] in old_ids
                )
                parts.append(old_rows[old_ids[part]].astype("float64"))
                rest = rest[len(part) :]
            expected = np.mean(parts, axis=0)
        np.testing.assert_allclose(
            rows[token_id], expected, rtol=1e-6, atol=1e-7, err_msg=piece
        )
    return counts


@pytest.mark.parametrize(
    "fields",
    [{}, {"share_embeddings": "source_target", "output_bias": True}],
    ids=["all", "source_target"],
)
def test_embedding_rows_follow_their_pieces(directory, fields):
    old, new = vocabulary(OLD_TEXT), vocabulary(NEW_TEXT, 295)
    expected = arrays_of(make(directory, old, **fields))
    random.seed(3)
    model, initial, lines = started(directory, new, from_start=False, **fields)
    num_vocabulary_weights = 0
    for name, array in arrays_of(model).items():
        if len(array) != len(new):
            np.testing.assert_array_equal(array, expected[name])
            continue
        num_vocabulary_weights += 1
        counts = assert_rows(expected[name], array, initial[name], old, new)
        assert min(counts) > 0
    kept, spelt, rest = (f"{count} ({count / 295:.1%})" for count in counts)
    assert lines[1] == (
        f"vocabulary: of 295 pieces, {kept} keep their rows, {spelt} get the "
        f"mean of the pieces that spell them, {rest} start untrained"
    )
    assert num_vocabulary_weights == (3 if fields else 1)


def test_two_vocabularies_have_rows_of_their_own(directory):
    old = vocabulary(OLD_TEXT), vocabulary(NEW_TEXT, 291)
    new = vocabulary(NEW_TEXT, 293), vocabulary(OLD_TEXT, 292)
    arrays = arrays_of(make(directory, *old, joint=False))
    model, initial, lines = started(
        directory, *new, joint=False, from_start=False
    )
    result = arrays_of(model)
    for side, name in enumerate(["source", "target"]):
        key = f"{name}_embedding/embeddings"
        rows = (arrays[key], result[key], initial[key])
        assert_rows(*rows, old[side], new[side])
        assert lines[1 + side].startswith(f"{name} vocabulary: of {293 - side}")


def test_pieces_of_opennmt_tf_keep_their_rows(directory):
    new = vocabulary(NEW_TEXT)
    old = tokens(new.model)
    fields = {"start_token_id": 2, "attention_bias": True, "output_bias": True}
    arrays = arrays_of(make(directory, old, **fields))
    model, _, _ = started(directory, new, from_start=False, **fields)
    (piece,) = new.pieces(new.encode(["the"])[0])
    for name in ("embedding/embeddings", "output_bias"):
        before, rows = arrays[name], np.array(arrays_of(model)[name])
        np.testing.assert_array_equal(rows[:3], before[:3])
        np.testing.assert_array_equal(
            rows[new.encode(["the"])[0][0]], before[old.tokens.index(piece)]
        )


def test_weights_of_another_model_change_nothing(directory):
    make(directory, vocabulary(OLD_TEXT))
    recipe, start = start_of(directory)
    model = ra.Transformer(recipe.model_config(290))
    before = arrays_of(model)
    path = directory / "model.safetensors"
    arrays = load_arrays(path)
    last = sorted(arrays)[-1]
    lacking = {name: arrays[name] for name in arrays if name != last}
    for other in (
        lacking,
        {**lacking, last: arrays[last][:1]},
        {**arrays, "more": np.zeros(3, "float32")},
    ):
        save_arrays(other, path)
        with pytest.raises(ra.InputError, match="does not fit the model"):
            start.assign_to(model, *start.vocabularies, print)
    for name, array in arrays_of(model).items():
        np.testing.assert_array_equal(array, before[name])


def test_run_starts_from_the_weights(quickly, quick_run, tmp_path):
    output = tmp_path / "run"
    lines = []
    quickly(
        output,
        f"training.start_from={quick_run}",
        "training.steps=1",
        # No weight changes by so little.
        "training.learning_rate_scale=1e-30",
        report=lines.append,
    )
    text = "\n".join(lines)
    assert f"started from {quick_run}" in text
    assert "precision: float32 (the recipe says so)" in text
    name = "model.safetensors"
    assert_same_arrays(output / name, quick_run / name, atol=1e-9)


@pytest.mark.parametrize("joint", [True, False], ids=["joint", "two"])
def test_vocabularies_come_from_the_start_model(
    joint, recipe, corpus, directory
):
    target = None if joint else vocabulary(NEW_TEXT, 295)
    make(directory, vocabulary(OLD_TEXT), target, joint=joint)
    recipe = recipe.override(
        [
            *(f"model.{name}={value}" for name, value in FIELDS.items()),
            f"training.start_from={directory}",
            f"vocabulary.joint={str(joint).lower()}",
        ]
    )
    output = directory.with_name("run")
    inputs = find_inputs(recipe, output, corpus)
    # Another time they are found in the folder of the run.
    for found in (inputs, dataclasses.replace(inputs, vocabularies=None)):
        data = prepare_data(recipe, found, output, print)
        assert data.is_joint == joint
        assert len(data.source_vocabulary) == 290
        assert len(data.target_vocabulary) == (290 if joint else 295)


# === When a run starts from weights, and when it has ===


def test_resumed_run_does_not_start_again(directory, quick_run):
    make(directory, vocabulary(OLD_TEXT))
    mapping = recipe_of(directory)
    recipe = ra.Recipe.from_mapping(mapping)
    assert find_initial_weights(recipe, quick_run, resume=True) is None
    assert find_initial_weights(recipe, quick_run) is not None
    # Nothing was saved before it was stopped.
    run = directory.with_name("run")
    for name in (".DS_Store", ".step-00000004-abcd1234"):
        (run / "checkpoints" / name).mkdir(parents=True)
    assert find_initial_weights(recipe, run, resume=True) is not None
    # What it started from is not needed any more.
    shutil.rmtree(directory)
    (run / "checkpoints" / "stop-00000003").mkdir()
    for started in (run, quick_run):
        assert find_initial_weights(recipe, started, resume=True) is None
    mapping["training"]["start_from"] = None
    assert find_initial_weights(ra.Recipe.from_mapping(mapping), "y") is None


# === What is refused ===


def test_architecture_comes_from_the_start_model(directory):
    old = make(directory, vocabulary(OLD_TEXT), position_encoding="sinusoidal")
    recipe = ra.Recipe.from_mapping(
        recipe_of(directory, joint=False, hidden_dim=16, dropout=0.3)
    )
    start = find_initial_weights(recipe, directory.with_name("new"))
    lines = []
    new = with_values_of_start(recipe, start, None, lines.append)
    config = new.model_config(len(start.vocabularies[1]))
    assert dataclasses.replace(config, dropout=0.1) == dataclasses.replace(
        old.config, dropout=0.1
    )
    # What decides no shape is the recipe's.
    assert config.dropout == 0.3
    assert new.vocabulary.joint
    assert lines == [
        f"architecture: that of {directory}, with model.hidden_dim 8, "
        "model.position_encoding sinusoidal, model.first_position 0, "
        "vocabulary.joint True"
    ]
    # A run that is resumed has it in its recipe.
    run = directory.with_name("run")
    run.mkdir()
    new.save(run / "recipe.yaml")
    again = with_values_of_start(recipe, None, run, lines.append)
    assert again.to_mapping() == new.to_mapping()


def test_values_that_contradict_the_start_model_are_refused(directory):
    make(directory, vocabulary(OLD_TEXT), position_encoding="sinusoidal")
    same = {"position_encoding": "sinusoidal", "max_relative_position": 9}
    recipe, start = start_of(directory, **same, key_dim=4)
    for assignment, message in (
        ("model.hidden_dim=16", "model.hidden_dim` is 16 in the recipe and 8"),
        ("model.key_dim=3", "model.key_dim` is 3 in the recipe and 4"),
        (
            "model.position_encoding=relative",
            "is 'relative' in the recipe and 'sinusoidal'",
        ),
        (
            "vocabulary.joint=false",
            "vocabulary.joint` is False in the recipe and True",
        ),
    ):
        with pytest.raises(ra.InputError, match=message):
            with_values_of_start(
                recipe.override([assignment]), start, None, print
            )
    # Without an effect, or the same.
    given = recipe.override(
        ["model.max_relative_position=7", "model.key_dim=4"]
    )
    assert with_values_of_start(given, start, None, print) == given


@pytest.mark.parametrize(
    ("old", "options", "message"),
    [
        (lambda: tokens(None), {}, "`vocabulary.from_start: false`"),
        (
            lambda: tokens(None),
            {"from_start": False},
            "without a SentencePiece model",
        ),
        (subwords, {"from_start": False}, "`vocabulary.from_start: true`"),
        (
            lambda: vocabulary(OLD_TEXT),
            {"tokenized": True},
            "is no list of tokens with an end",
        ),
    ],
    ids="tokens words subwords model".split(),
)
def test_vocabulary_that_cannot_be_used_is_refused(
    directory, old, options, message
):
    make(directory, old())
    with pytest.raises(ra.InputError, match=message):
        start_of(directory, **options)


def test_vocabulary_of_tokens_may_be_kept(directory):
    make(directory, tokens(None))
    _, start = start_of(directory, tokenized=True)
    assert len(start.vocabularies[0]) == 9


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


def test_student_keeps_rows_or_names_a_way_out(directory):
    own, student = subwords(), vocabulary(NEW_TEXT)
    make(directory, own)
    _, start = start_of(directory)
    assert len(start.vocabularies[0]) == len(own)
    assert keeps_vocabulary(str(directory), (own, own))
    with pytest.raises(ra.InputError, match="leave out `training.start_from`"):
        keeps_vocabulary(str(directory), (student, student))
    other = directory.with_name("other")
    make(other, vocabulary(OLD_TEXT))
    assert not keeps_vocabulary(str(other), (student, student))
