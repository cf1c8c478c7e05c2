"""What a run reads: texts, vocabularies and joined lines."""

import math
import os
import shutil

import pytest

import relative_attention as ra
from relative_attention.recipes.sections import TrainingSection
from relative_attention.runs.prepare import find_inputs
from relative_attention.runs.prepare import prepare_data
from relative_attention.runs.run import training_length
from tests.small_models import model_of
from tests.small_models import trained_model


@pytest.fixture
def texts(corpus, tmp_path):
    """A copy of the corpus, and a SentencePiece model of one's own."""
    folder = shutil.copytree(corpus, tmp_path / "texts")
    lines = (folder / "train.en").read_text("utf-8").splitlines()
    model = trained_model(lines, vocab_size=120)
    (folder / "mine.model").write_bytes(model)
    return folder


@pytest.fixture
def prepare(recipe, texts, tmp_path):
    """`prepare("section.key=value", ...)`: data, and what is said of it."""

    def prepare(*overrides, **arguments):
        own = recipe.override(overrides)
        output = tmp_path / "run"
        lines = []
        inputs = find_inputs(own, output, texts, **arguments)
        return prepare_data(own, inputs, output, lines.append), lines

    return prepare


HELD_OUT = ("data.validation_source=null", "data.validation_target=null")


def test_vocabulary_of_a_run_that_has_not_trained_is_the_file_of_today(
    prepare, texts
):
    before, _ = prepare("vocabulary.model=mine.model")
    lines = (texts / "train.en").read_text("utf-8").splitlines()
    (texts / "mine.model").write_bytes(trained_model(lines, vocab_size=110))
    data, _ = prepare("vocabulary.model=mine.model")
    sizes = [len(each.source_vocabulary) for each in (before, data)]
    # The model of the fixture has 120 pieces.
    assert sizes[0] - sizes[1] == 10


# === Texts ===


def damage(path):
    """Make a text unusable, and leave its size and time as they were."""
    stat = os.stat(path)
    with open(path, "r+b") as file:
        file.write(b"\xff")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_variants_are_trained_on_and_not_validated_on(prepare, texts, tmp_path):
    plain, _ = prepare(*HELD_OUT)
    shutil.rmtree(tmp_path / "run")
    varied, lines = prepare(*HELD_OUT, "data.variants=1")
    assert len(varied.train_corpus) > 1.2 * len(plain.train_corpus)
    assert len(varied.validation_corpus) == len(plain.validation_corpus)
    assert any(line.startswith("variants of lines: ") for line in lines)
    # A resumed run finds them.
    again, lines = prepare(*HELD_OUT, "data.variants=1")
    assert again.train_corpus.checksum == varied.train_corpus.checksum
    assert not any("variants" in line for line in lines)
    # Not those of another text.
    path = texts / "train.en"
    first, rest = path.read_text().split("\n", 1)
    path.write_text(f"{first} more\n{rest}")
    changed, lines = prepare(*HELD_OUT, "data.variants=1")
    assert changed.train_corpus.checksum != varied.train_corpus.checksum
    # Things to copy are no reason for other pieces.
    content = [data.source_vocabulary.model for data in (plain, varied)]
    assert content[0] == content[1]


@pytest.mark.parametrize("name", ["train.en", "test.en"])
def test_texts_are_checked_once_before_a_run(name, prepare, texts):
    prepare()
    damage(texts / name)
    # A test set is not encoded; it is small, and read every time.
    if name != "test.en":
        prepare()
    os.utime(texts / name)
    for arguments in ({}, {"overwrite": True}):
        with pytest.raises(ra.InputError, match="line 1: not valid UTF-8"):
            prepare(**arguments)


def test_lines_are_numbered_as_in_the_users_file(prepare, corpus):
    data, _ = prepare(*HELD_OUT)
    whole = list(ra.ParallelCorpus(corpus / "train.en", corpus / "train.de"))
    for part in (data.train_corpus, data.validation_corpus):
        assert len(part.line_numbers) == len(part) > 0
        for pair, number in enumerate(part.line_numbers):
            start, end = part.source_offsets[pair : pair + 2]
            ids = part.source_ids[start:end]
            (text,) = data.source_vocabulary.decode([ids])
            assert text == whole[number - 1][0]
    numbers = {*data.train_corpus.line_numbers}
    held_out = {*data.validation_corpus.line_numbers}
    assert len(held_out) == 30 and not numbers & held_out
    batches, _ = data.batches(512, 512, seed=1)
    assert set(batches.line_numbers(0)) <= numbers


def test_no_sentence_is_trained_on_and_validated_on(prepare, texts):
    for side in ("en", "de"):
        path = texts / f"train.{side}"
        lines = path.read_text().splitlines()
        # A third twice, one of the sides in another case.
        more = [
            line.upper() if (number % 2) == (side == "en") else f"{line} {side}"
            for number, line in enumerate(lines[:100])
        ]
        path.write_text("\n".join(lines + more) + "\n")
    data, reported = prepare(*HELD_OUT)
    whole = [
        [line.lower() for line in (texts / name).read_text().splitlines()]
        for name in ("train.en", "train.de")
    ]
    train, held_out = (
        part.line_numbers - 1
        for part in (data.train_corpus, data.validation_corpus)
    )
    for side in whole:
        assert not {side[n] for n in train} & {side[n] for n in held_out}
    num_left_out = len(whole[0]) - len(train) - len(held_out)
    assert num_left_out > 0
    told = f"train: {num_left_out} pairs are left out, as they share"
    assert any(line.startswith(told) for line in reported)


def test_few_pairs_are_reported_with_those_left_out(prepare, texts):
    _, lines = prepare()
    assert not any("warning" in line for line in lines)
    for side in ("en", "de"):
        path = texts / f"train.{side}"
        text = path.read_text().splitlines()[:102]
        text[3] = "" if side == "en" else text[3]
        text[5] = "x " * 50_000
        path.write_text("\n".join(text) + "\n")
    _, lines = prepare()
    counted = "100 pairs; left out 1 with an empty line, 1 of over 256"
    assert counted in "\n".join(lines)
    (line,) = [line for line in lines if line.startswith("warning: 100 pairs")]
    assert "too few to learn to translate" in line


@pytest.mark.only_on("tensorflow", reason="elsewhere lengths are known")
def test_long_lines_without_recomputing_are_warned_of(prepare):
    def warnings(*overrides):
        _, lines = prepare(*overrides)
        return [line for line in lines if "model.implementation" in line]

    assert not warnings("data.max_length=2048")
    (line,) = warnings("data.max_length=2049")
    assert "`data.max_length` 2,049" in line and "`recompute`" in line
    assert not warnings(
        "data.max_length=2049", "model.implementation=recompute"
    )


@pytest.mark.parametrize(
    ("steps", "epochs", "expected", "words"),
    [
        (None, 2, 20, ""),
        (20, 2, 20, ""),
        (1000, 2, 20, "after 20 updates, not the 1,000 of `training.steps`"),
    ],
)
def test_epochs_that_end_before_steps_are_reported(
    steps, epochs, expected, words
):
    lines = []
    section = TrainingSection(steps=steps, epochs=epochs)
    assert training_length(section, 10, lines.append) == expected
    assert bool(lines) == bool(words)
    assert words in "".join(lines)


# === Vocabularies ===


@pytest.mark.parametrize("joint", ["true", "false"])
def test_vocabulary_is_smaller_when_the_text_is_small(joint, prepare):
    data, lines = prepare(
        "vocabulary.size=8000",
        f"vocabulary.joint={joint}",
        "vocabulary.required_chars='#~'",
    )
    sizes = [len(data.source_vocabulary), len(data.target_vocabulary)]
    assert all(300 < size < 8000 for size in sizes)
    said = [line for line in lines if "the text holds" in line]
    for line, size in zip(said, sizes):
        assert f"holds only {size:,} pieces" in line
        assert "8,000 of `vocabulary.size`" in line
    assert len(said) == (1 if joint == "true" else 2)
    assert all(map(data.target_vocabulary.has_piece, "#~"))
    sentence = "he paid ten euros."
    ids = data.source_vocabulary.encode([sentence])
    assert data.source_vocabulary.decode(ids) == [sentence]


@pytest.mark.parametrize("joint", [True, False], ids=["joint", "two"])
def test_given_sentencepiece_model_is_the_vocabulary(
    joint, prepare, texts, tmp_path
):
    overrides = [f"vocabulary.joint={str(joint).lower()}"]
    for name in ["model"] if joint else ["source_model", "target_model"]:
        overrides.append(f"vocabulary.{name}=mine.model")
    expected = ra.Vocabulary.from_sentencepiece(texts / "mine.model")
    for resume in (False, True):
        data, lines = prepare(*overrides, resume=resume)
        assert data.is_joint == joint
        for vocabulary in (data.source_vocabulary, data.target_vocabulary):
            assert vocabulary.model == expected.model
        assert not any("learning" in line for line in lines)
        # A run that has trained has it, whatever the file is by then.
        (texts / "mine.model").write_text("damaged")
        if not resume:
            with pytest.raises(ra.InputError, match="mine.model"):
                prepare(*overrides, resume=True)
        (tmp_path / "run" / "training.csv").touch()


TOKENIZED = ("data.tokenized=true", "data.target_language=null")


def test_tokenized_texts_have_a_vocabulary_of_tokens(prepare, texts):
    overrides = (*TOKENIZED, "vocabulary.size=50")
    data, lines = prepare(*overrides)
    vocabulary = data.target_vocabulary
    assert isinstance(vocabulary, ra.TokenVocabulary)
    assert len(vocabulary) == 50
    assert any("50 most frequent tokens" in line for line in lines)
    start, end = data.train_corpus.source_offsets[:2]
    number = data.train_corpus.line_numbers[0]
    text = (texts / "train.en").read_text().splitlines()[number - 1]
    assert end - start == len(text.split())
    # Another time it is found in the folder of the run, and so are the ids.
    again, lines = prepare(*overrides)
    assert again.target_vocabulary.tokens == vocabulary.tokens
    assert not any("frequent" in line for line in lines)


# === Joined lines ===

JOIN = ("data.join=4", "data.join_share=0.5")


@pytest.mark.parametrize("fixed_shapes", [False, True])
def test_joined_row_is_the_text_of_its_lines(fixed_shapes, prepare, corpus):
    data, _ = prepare(*JOIN)
    lines = [
        (corpus / f"train.{language}").read_text("utf-8").split("\n")
        for language in ("en", "de")
    ]
    batches, validation = data.batches(512, 512, 1, fixed_shapes=fixed_shapes)
    vocabulary = data.target_vocabulary
    num_rows, lengths = 0, []
    for step in range(len(batches)):
        inputs, labels = batches.train_batch(step)
        numbers = data.train_corpus.line_numbers[batches.batch_indices(0, step)]
        is_row = labels.any(axis=1)
        num_rows += is_row.sum()
        lengths += (inputs["source_token_ids"][is_row] > 0).sum(1).tolist()
        for ids, text in zip((inputs["source_token_ids"], labels), lines):
            rows = vocabulary.decode(ids[is_row])
            assert " ".join(rows) == " ".join(text[n - 1] for n in numbers)
            # The ids are those that a user's paragraph has.
            assert vocabulary.encode(rows) == [
                row[row > 1].tolist() for row in ids[is_row]
            ]
    assert num_rows < 0.8 * len(data.train_corpus)
    for share in (0.5, 0.999, 1):
        expected = sorted(lengths)[math.ceil(share * num_rows) - 1]
        assert batches.source_length(share) == expected
    # What is validated is not joined.
    num_rows = sum(
        validation.train_batch(step)[1].any(axis=1).sum()
        for step in range(len(validation))
    )
    assert num_rows == len(data.validation_corpus)


def test_vocabulary_that_cannot_be_joined_is_refused_before_any_work(
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
