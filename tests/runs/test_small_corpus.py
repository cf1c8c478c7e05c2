"""What becomes of a small text, and by what numbers its lines are known."""

import pytest

import relative_attention as ra
from relative_attention.corpora.recipe_text import find_corpus
from relative_attention.corpora.recipe_text import hold_out
from relative_attention.runs.prepared_data import prepare_data
from relative_attention.runs.recipe_sections import TrainingSection
from relative_attention.runs.training_length import training_length


@pytest.fixture
def prepare(recipe, corpus, tmp_path):
    """Data of the recipe without a validation text, and what is said of it."""

    def prepare(*overrides):
        own = recipe.override(
            [
                "data.validation_source=null",
                "data.validation_target=null",
                *overrides,
            ]
        )
        lines = []
        files = find_corpus(own.data, corpus)
        data = prepare_data(own, files, tmp_path / "run", lines.append)
        return data, lines

    return prepare


@pytest.mark.parametrize("joint", ["true", "false"])
def test_vocabulary_is_as_large_as_the_text_carries(joint, prepare):
    data, lines = prepare("vocabulary.size=8000", f"vocabulary.joint={joint}")
    sizes = [len(data.source_vocabulary), len(data.target_vocabulary)]
    assert all(300 < size < 8000 for size in sizes)
    said = [line for line in lines if "the text carries" in line]
    for line, size in zip(said, sizes):
        assert f"carries {size:,} pieces" in line
        assert "8,000 of `vocabulary.size`" in line
    assert len(said) == (1 if joint == "true" else 2)
    sentence = "he paid ten euros."
    ids = data.source_vocabulary.encode([sentence])
    assert data.source_vocabulary.decode(ids) == [sentence]


def test_nothing_is_said_of_a_size_that_the_text_carries(prepare):
    data, lines = prepare()
    assert len(data.target_vocabulary) == 400
    assert not any("carries" in line for line in lines)


def test_lines_are_numbered_as_in_the_users_file(prepare, corpus):
    data, _ = prepare()
    whole = list(ra.ParallelCorpus(corpus / "train.en", corpus / "train.de"))
    for part in (data.train_corpus, data.validation_corpus):
        assert len(part.line_numbers) == len(part) > 0
        for pair, number in enumerate(part.line_numbers):
            start, end = part.source_offsets[pair : pair + 2]
            ids = part.source_ids[start:end]
            (text,) = data.source_vocabulary.decode([ids])
            assert text == whole[number - 1][0]
    numbers = {*data.train_corpus.line_numbers}
    assert len(numbers | {*data.validation_corpus.line_numbers}) == len(whole)
    batches = data.batches(512, 512, seed=1).train
    assert set(batches.line_numbers(0)) <= numbers


def test_held_out_lines_are_the_same_lines_again(corpus, tmp_path):
    """Runs from before line numbers were told go on with their parts."""
    whole = ra.ParallelCorpus(corpus / "train.en", corpus / "train.de")
    first, again = (
        [list(part) for part in hold_out(whole, 30, 1, tmp_path / "held_out")]
        for _ in range(2)
    )
    assert first == again


@pytest.mark.parametrize(
    ("steps", "epochs", "expected", "words"),
    [
        (None, 2, 20, ""),
        (12, None, 12, ""),
        (12, 2, 12, ""),
        (20, 2, 20, ""),
        (1000, 2, 20, "after 20 updates, not the 1,000 of `training.steps`"),
    ],
)
def test_epochs_that_end_before_the_steps_are_told(
    steps, epochs, expected, words
):
    lines = []
    section = TrainingSection(steps=steps, epochs=epochs)
    assert training_length(section, 10, lines.append) == expected
    assert bool(lines) == bool(words)
    assert words in "".join(lines)
