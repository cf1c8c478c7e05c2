"""Models that start from the weights of others, and what cannot."""

import shutil

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.corpora.recipe_text import find_corpus
from relative_attention.models.weights import load_arrays
from relative_attention.models.weights import save_arrays
from relative_attention.models.weights import weight_name
from relative_attention.runs.prepare import prepare_data
from relative_attention.runs.start_from import find_initial_weights
from relative_attention.saving.model_directory import load_config
from relative_attention.saving.model_directory import load_vocabularies
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


def started(directory, source=None, target=None, **options):
    """The new model, its initial arrays, and the lines of the report."""
    recipe, start = start_of(directory, **options)
    if source is None:
        source, target = start.vocabularies
    target = target or source
    model = ra.Transformer(
        recipe.model_config(
            len(target), None if source is target else len(source)
        )
    )
    initial = arrays_of(model)
    lines = start.assign_to(model, source, target)
    return model, initial, lines


def arrays_of(model):
    return {weight_name(w): np.array(w) for w in model.weights}


def test_recipe_that_starts_from_nothing():
    mapping = recipe_of("x")
    mapping["training"]["start_from"] = None
    assert find_initial_weights(ra.Recipe.from_mapping(mapping), "y") is None


@pytest.mark.parametrize(
    "fields",
    [{}, {"dropout": 0.3}, {"share_embeddings": "none", "output_bias": True}],
    ids=["as it is", "other dropout", "apart"],
)
def test_model_with_the_same_vocabulary_is_the_same(directory, fields):
    old = make(directory, vocabulary(OLD_TEXT), **fields)
    model, _, lines = started(directory, **{**fields, "dropout": 0.2})
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


@pytest.mark.parametrize(
    "kind", ["joint", "two", "subwords"], ids=lambda kind: kind
)
def test_vocabularies_come_along(directory, tmp_path, kind):
    source = subwords() if kind == "subwords" else vocabulary(OLD_TEXT)
    target = vocabulary(NEW_TEXT, 295) if kind == "two" else source
    make(directory, source, target, joint=source is target)
    _, start = start_of(directory, joint=source is target)
    (tmp_path / "new").mkdir()
    start.copy_vocabularies(tmp_path / "new")
    found = load_vocabularies(tmp_path / "new")
    assert [x.model for x in found] == [source.model, target.model]
    assert (found[0] is found[1]) == (source is target)


def test_new_vocabularies_are_not_overwritten(directory, tmp_path):
    make(directory, vocabulary(OLD_TEXT))
    _, start = start_of(directory, from_start=False)
    (tmp_path / "new").mkdir()
    start.copy_vocabularies(tmp_path / "new")
    assert not list((tmp_path / "new").iterdir())


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
    [
        {"share_embeddings": "all"},
        {"share_embeddings": "source_target", "output_bias": True},
        {"share_embeddings": "target"},
    ],
    ids=lambda fields: fields["share_embeddings"],
)
def test_rows_follow_their_pieces(directory, fields):
    old, new = vocabulary(OLD_TEXT), vocabulary(NEW_TEXT, 295)
    expected = arrays_of(make(directory, old, **fields))
    keras.utils.set_random_seed(3)
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
    assert num_vocabulary_weights == {"all": 1, "target": 2}.get(
        fields["share_embeddings"], 3
    )


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
        assert_rows(
            arrays[key], result[key], initial[key], old[side], new[side]
        )
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


@pytest.mark.parametrize("what", ["missing", "left over", "shape"])
def test_weights_of_another_model_change_nothing(directory, what):
    make(directory, vocabulary(OLD_TEXT))
    recipe, start = start_of(directory)
    model = ra.Transformer(recipe.model_config(290))
    before = arrays_of(model)
    path = directory / "model.safetensors"
    arrays = load_arrays(path)
    last = sorted(arrays)[-1]
    if what == "missing":
        del arrays[last]
    elif what == "shape":
        arrays[last] = arrays[last][:1]
    else:
        arrays["more"] = np.zeros(3, "float32")
    save_arrays(arrays, path)
    with pytest.raises(ra.InputError, match="does not fit the model"):
        start.assign_to(model, *start.vocabularies)
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
    assert f"started from {quick_run}" in "\n".join(lines)
    expected = load_arrays(quick_run / "model.safetensors")
    for name, array in load_arrays(output / "model.safetensors").items():
        np.testing.assert_allclose(array, expected[name], atol=1e-9)
    assert (output / "vocabulary.model").read_bytes() == (
        quick_run / "vocabulary.model"
    ).read_bytes()


def test_run_that_goes_on_does_not_start_again(directory, quick_run):
    make(directory, vocabulary(OLD_TEXT))
    recipe = ra.Recipe.from_mapping(recipe_of(directory))
    assert find_initial_weights(recipe, quick_run, resume=True) is None
    assert find_initial_weights(recipe, quick_run) is not None
    # Nothing was saved before it was stopped.
    assert (
        find_initial_weights(recipe, directory.parent, resume=True) is not None
    )
    # What it started from is not needed any more.
    shutil.rmtree(directory)
    assert find_initial_weights(recipe, quick_run, resume=True) is None


@pytest.mark.parametrize("from_start", [True, False], ids=["its own", "new"])
def test_data_is_encoded_with_the_vocabulary_of_the_recipe(
    recipe, corpus, quick_run, tmp_path, from_start
):
    recipe = recipe.override(
        [
            f"training.start_from={quick_run}",
            f"vocabulary.from_start={str(from_start).lower()}",
            "vocabulary.size=350",
        ]
    )
    files = find_corpus(recipe.data, corpus)
    initial = find_initial_weights(recipe, tmp_path)
    for _ in range(2):
        data = prepare_data(recipe, files, tmp_path, print, initial)
        assert data.is_joint
        assert len(data.target_vocabulary) == (400 if from_start else 350)
        # Another time it is found in the folder of the run.
        initial = None


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


@pytest.fixture
def absent_start(recipe, tmp_path):
    return recipe.override([f"training.start_from={tmp_path / 'absent'}"])


@pytest.mark.parametrize(
    "name", [".DS_Store", ".step-00000004-abcd1234", "notes"]
)
def test_run_without_a_checkpoint_still_starts_from_weights(
    name, absent_start, tmp_path
):
    (tmp_path / "run" / "checkpoints" / name).mkdir(parents=True)
    with pytest.raises(ra.InputError, match="No model to start from"):
        find_initial_weights(absent_start, tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    "name", ["step-00000004", "stop-00000003", ".step-00000004-abcd1234-old"]
)
def test_run_with_a_checkpoint_has_started(name, absent_start, tmp_path):
    (tmp_path / "run" / "checkpoints" / name).mkdir(parents=True)
    assert (
        find_initial_weights(absent_start, tmp_path / "run", resume=True)
        is None
    )
