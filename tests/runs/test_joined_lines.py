"""Runs that learn from joined lines."""

import shutil

import pytest

import relative_attention as ra
from relative_attention.models.weights import load_arrays
from relative_attention.runs.prepared_data import check_joining
from relative_attention.runs.prepared_data import prepare_data
from tests.data.piece_models import model_of
from tests.small_run import RECIPE

JOIN = ("data.join=4", "data.join_share=0.5")


def weights(output, step, name="model"):
    return load_arrays(
        output / "checkpoints" / f"step-{step:08}" / f"{name}.safetensors"
    )


def differing(first, second):
    assert first.keys() == second.keys()
    return [key for key in first if (first[key] != second[key]).any()]


@pytest.fixture(scope="module")
def data(corpus, tmp_path_factory):
    recipe = ra.Recipe.from_mapping(RECIPE).override(JOIN)
    files = {
        name: str(corpus / value)
        for name, value in RECIPE["data"].items()
        if name != "target_language"
    }
    section = recipe.override([f"data.{n}={p}" for n, p in files.items()]).data
    folder = tmp_path_factory.mktemp("data")
    return prepare_data(recipe, section, folder, lambda line: None)


@pytest.mark.parametrize("fixed_shapes", [False, True])
def test_a_row_is_the_text_of_its_lines_with_blanks_between(
    fixed_shapes, data, corpus
):
    lines = [
        (corpus / f"train.{language}").read_text("utf-8").split("\n")
        for language in ("en", "de")
    ]
    batches = data.batches(512, 512, 1, fixed_shapes=fixed_shapes).train
    vocabulary = data.target_vocabulary
    num_rows = 0
    for step in range(len(batches)):
        inputs, labels = batches.train_batch(step)
        numbers = data.train_corpus.line_numbers[batches.batch_indices(0, step)]
        is_row = labels.any(axis=1)
        num_rows += is_row.sum()
        for ids, text in zip((inputs["source_token_ids"], labels), lines):
            rows = vocabulary.decode(ids[is_row])
            assert " ".join(rows) == " ".join(text[n - 1] for n in numbers)
            # The ids are those that a user's paragraph has.
            assert vocabulary.encode(rows) == [
                row[row > 1].tolist() for row in ids[is_row]
            ]
    assert num_rows < 0.8 * len(data.train_corpus)


def test_validation_is_not_joined(data):
    validation = data.batches(512, 512, 1).validation
    rows = sum(
        len(validation.train_batch(step)[1]) for step in range(len(validation))
    )
    assert rows == len(data.validation_corpus)


def test_resumed_run_sees_what_it_would_have_seen(quickly, quick_run, tmp_path):
    quickly(tmp_path / "whole", *JOIN)
    quickly(tmp_path / "run", *JOIN, "training.steps=3")
    quickly(tmp_path / "run", *JOIN, resume=True)
    for name in ("model", "training"):
        assert not differing(
            weights(tmp_path / "run", 4, name),
            weights(tmp_path / "whole", 4, name),
        )
    assert differing(weights(tmp_path / "whole", 4), weights(quick_run, 4))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.join=4", "`data.join` None, now it is 4"),
        ("data.join_share=0.2", "`data.join_share` 0.3, now it is 0.2"),
    ],
)
def test_what_is_joined_stays(override, message, quickly, quick_run):
    with pytest.raises(ra.InputError, match=message):
        quickly(quick_run, override, resume=True)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["data.join=0"], "`data.join` must be at least 1. Received: 0"),
        (["data.join_share=0"], "`data.join_share` must be positive"),
        (["data.join_share=1"], "`data.join_share` must be in"),
    ],
)
def test_wrong_recipes_are_refused(overrides, message, recipe):
    with pytest.raises(ra.InputError, match=message):
        recipe.override(overrides)


def test_vocabularies_that_cannot_be_joined_are_refused(recipe):
    recipe = recipe.override(JOIN)
    tokens = ra.TokenVocabulary.train(["a. .a b"], 9)
    check_joining(recipe, tokens)
    words = ["<pad>_", "<EOS>_", *"_\\u;0123456789a. "]
    subwords = ra.SubwordVocabulary("\n".join(map(repr, words)).encode())
    with pytest.raises(ra.InputError, match="must be null.*SubwordVocab"):
        check_joining(recipe, tokens, subwords)


def test_vocabulary_of_ones_own_is_asked_before_any_work(
    recipe, corpus, quick_run, tmp_path
):
    folder = shutil.copytree(corpus, tmp_path / "texts")
    # It marks no blank at the beginning of a line.
    model_of(["\u2581", *"abc."]).save(folder / "mine.model")
    output = shutil.copytree(quick_run, tmp_path / "run")
    own = recipe.override([*JOIN, "vocabulary.model=mine.model"])
    with pytest.raises(ra.InputError, match="`data.join` must be null"):
        ra.train(own, output, data_directory=folder, overwrite=True)
    assert (output / "model.safetensors").exists()
