"""A vocabulary of one's own in a recipe, and texts that are tokenised."""

import io
import shutil

import pytest
import sentencepiece

import relative_attention as ra
from relative_attention.corpora.recipe_text import find_corpus
from relative_attention.runs.given_vocabulary import load_given
from relative_attention.runs.given_vocabulary import named_vocabularies
from relative_attention.runs.prepared_data import prepare_data

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


def prepare(recipe, texts, output):
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
    data, lines = prepare(recipe.override(overrides), texts, output)
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
    data, lines = prepare(own, texts, tmp_path / "run")
    vocabulary = data.target_vocabulary
    assert isinstance(vocabulary, ra.TokenVocabulary)
    assert len(vocabulary) == 50
    assert any("50 most frequent tokens" in line for line in lines)
    start, end = data.train_corpus.source_offsets[:2]
    number = data.train_corpus.line_numbers[0]
    text = (texts / "train.en").read_text().splitlines()[number - 1]
    assert end - start == len(text.split())
    # Another time it is found in the folder of the run, and so are the ids.
    again, _ = prepare(own, texts, tmp_path / "run")
    assert again.target_vocabulary.tokens == vocabulary.tokens


def test_list_of_tokens_may_be_given(recipe, texts, tmp_path):
    (texts / "tokens.txt").write_text("<blank>\n<s>\n</s>\nten\npaid\n")
    own = recipe.override([*TOKENIZED, "vocabulary.model=tokens.txt"])
    data, _ = prepare(own, texts, tmp_path / "run")
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
