"""What a run reads: texts, vocabularies and joined lines."""

import io
import os
import shutil

import pytest
import sentencepiece

import relative_attention as ra
from relative_attention.corpora.recipe_text import find_corpus
from relative_attention.models.weights import load_arrays
from relative_attention.runs.prepare import check_joining
from relative_attention.runs.prepare import check_texts
from relative_attention.runs.prepare import load_given
from relative_attention.runs.prepare import named_vocabularies
from relative_attention.runs.prepare import prepare_data
from relative_attention.runs.recipe_sections import TrainingSection
from relative_attention.runs.run import training_length
from tests.data.piece_models import model_of
from tests.small_run import RECIPE


@pytest.fixture
def files(recipe, corpus, tmp_path):
    """The texts of the recipe, copied, to be damaged."""
    for path in corpus.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return find_corpus(recipe.data, tmp_path)


def damage(path):
    """Make a text unusable, and leave its size and time as they were."""
    stat = os.stat(path)
    with open(path, "r+b") as file:
        file.write(b"\xff")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.mark.parametrize("name", ["source", "validation_target"])
def test_texts_are_read_once_only(name, recipe, files, tmp_path):
    run = tmp_path / "run"
    prepare_data(recipe, files, run, lambda line: None)
    path = getattr(files, name)
    damage(path)
    check_texts(files, run)
    # A test set is not encoded; it is small, and read every time.
    os.utime(path)
    with pytest.raises(ra.InputError, match="line 1: not valid UTF-8"):
        check_texts(files, run)


@pytest.mark.parametrize("name", ["source", "validation_target", "test_source"])
def test_every_text_is_read_before_a_run(name, files, tmp_path):
    damage(getattr(files, name))
    os.utime(getattr(files, name))
    with pytest.raises(ra.InputError, match="line 1: not valid UTF-8"):
        check_texts(files, tmp_path / "run")


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


TOKENIZED = ("data.tokenized=true", "data.target_language=null")


@pytest.fixture
def texts(corpus, tmp_path):
    """The corpus, and a SentencePiece model of one's own beside it."""
    folder = shutil.copytree(corpus, tmp_path / "texts")
    model = io.BytesIO()
    lines = (folder / "train.en").read_text("utf-8").splitlines()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=120,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    (folder / "mine.model").write_bytes(model.getvalue())
    return folder


def prepare_given(recipe, texts, output):
    files = find_corpus(recipe.data, texts)
    paths = named_vocabularies(recipe, texts)
    given = load_given(recipe, paths, output)
    lines = []
    return prepare_data(recipe, files, output, lines.append, given=given), lines


@pytest.mark.parametrize("joint", [True, False], ids=["joint", "two"])
def test_own_model_is_the_vocabulary(joint, recipe, texts, tmp_path):
    overrides = ["vocabulary.model=mine.model"]
    if not joint:
        overrides = [
            "vocabulary.joint=false",
            "vocabulary.source_model=mine.model",
            "vocabulary.target_model=mine.model",
        ]
    output = tmp_path / "run"
    data, lines = prepare_given(recipe.override(overrides), texts, output)
    assert data.is_joint == joint
    expected = ra.Vocabulary.from_sentencepiece(texts / "mine.model")
    for vocabulary in (data.source_vocabulary, data.target_vocabulary):
        assert vocabulary.model == expected.model
    assert not any("learning" in line for line in lines)
    # The run has it; to go on with it needs no other.
    (texts / "mine.model").unlink()
    own = recipe.override(overrides)
    found = {"mine.model": str(texts / "mine.model")}
    assert load_given(own, found, output, resume=True) is None


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["vocabulary.source_model=a"], "are for `vocabulary.joint: false`"),
        (
            ["vocabulary.joint=false", "vocabulary.source_model=a"],
            "give both `vocabulary.source_model` and",
        ),
        (
            ["vocabulary.joint=false", "vocabulary.model=a"],
            "and no `vocabulary.model`",
        ),
        (
            ["vocabulary.model=a", "training.start_from=b"],
            "`vocabulary.from_start: false`",
        ),
    ],
    ids=["joint", "half", "one", "start"],
)
def test_vocabularies_that_do_not_go_together_are_named(
    overrides, message, recipe
):
    with pytest.raises(ra.InputError, match=message):
        recipe.override(overrides)


def test_model_that_is_missing_is_named_before_any_work(
    recipe, texts, tmp_path
):
    own = recipe.override(["vocabulary.model=absent.model"])
    with pytest.raises(ra.InputError, match="absent.model"):
        ra.train(own, tmp_path / "run", data_directory=texts)
    assert not (tmp_path / "run").exists()


def test_tokenised_texts_have_a_vocabulary_of_tokens(recipe, texts, tmp_path):
    own = recipe.override([*TOKENIZED, "vocabulary.size=50"])
    data, lines = prepare_given(own, texts, tmp_path / "run")
    vocabulary = data.target_vocabulary
    assert isinstance(vocabulary, ra.TokenVocabulary)
    assert len(vocabulary) == 50
    assert any("50 most frequent tokens" in line for line in lines)
    start, end = data.train_corpus.source_offsets[:2]
    number = data.train_corpus.line_numbers[0]
    text = (texts / "train.en").read_text().splitlines()[number - 1]
    assert end - start == len(text.split())
    # Another time it is found in the folder of the run, and so are the ids.
    again, _ = prepare_given(own, texts, tmp_path / "run")
    assert again.target_vocabulary.tokens == vocabulary.tokens


def test_list_of_tokens_may_be_given(recipe, texts, tmp_path):
    (texts / "tokens.txt").write_text("<blank>\n<s>\n</s>\nten\npaid\n")
    own = recipe.override([*TOKENIZED, "vocabulary.model=tokens.txt"])
    data, _ = prepare_given(own, texts, tmp_path / "run")
    assert data.source_vocabulary.tokens[3:] == ["ten", "paid", "<unk>"]


@pytest.mark.large
def test_model_of_tokens_is_trained_and_gone_on_from(recipe, texts, tmp_path):
    overrides = [
        *TOKENIZED,
        "vocabulary.size=50",
        "training.steps=2",
        "training.bleu_every=0",
    ]
    output = tmp_path / "run"
    ra.train(recipe.override(overrides), output, data_directory=texts)
    translator = ra.load_translator(output)
    assert isinstance(translator.vocabulary, ra.TokenVocabulary)
    assert isinstance(translator.translate(["he paid ten"])[0], str)
    lines = []
    ra.train(
        recipe.override([*overrides, f"training.start_from={output}"]),
        tmp_path / "next",
        data_directory=texts,
        report=lines.append,
    )
    assert "vocabulary: that of the model started from" in lines


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
