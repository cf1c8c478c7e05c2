"""CTranslate2 finds ids by the tokens that the folder names."""

import json

import numpy as np
import pytest

import relative_attention as ra
from tests.export.tiny_models import engine_of
from tests.export.tiny_models import make_model


def talk_less(model):
    """Let translations end before they are too long."""
    bias = np.array(model.output_bias)
    bias[1] = 3
    model.output_bias.assign(bias)


def test_subwords_translate_by_index(rng, tmp_path):
    # An empty line, and the same twice: of these the last is used.
    subwords = ["<pad>_", "<EOS>_", "a_", "", "man_", "a_", *"\\_u;0123456789"]
    subwords += "rides dog b".replace(" ", "")
    vocabulary = ra.SubwordVocabulary("\n".join(subwords).encode())
    model = make_model(rng, vocabulary_size=len(vocabulary), output_bias=True)
    talk_less(model)
    translator = ra.Translator(model, vocabulary, num_beams=1)
    ra.export_ctranslate2(translator, tmp_path / "engine")

    file = tmp_path / "engine" / "shared_vocabulary.json"
    tokens = json.loads(file.read_text("utf-8"))
    assert len(set(tokens)) == len(tokens) == len(vocabulary)
    assert tokens[2:6] == ["<unused 2>", "<unused 3>", "man_", "a_"]
    saved = ra.SubwordVocabulary.load(
        tmp_path / "engine" / "vocabulary.subwords"
    )
    lines = ["a man rides", "dog", "b  a"]
    results = engine_of(tmp_path / "engine").translate_batch(
        [saved.pieces(row) for row in saved.encode(lines)],
        beam_size=1,
        min_decoding_length=0,
    )
    texts = saved.decode(
        [tokens.index(token) for token in result.hypotheses[0]]
        for result in results
    )
    assert texts == translator.translate(lines)
    # What is no token is padding, not an id that there is not.
    engine_of(tmp_path / "engine").translate_batch([["no such token"]])


@pytest.mark.parametrize("start", [False, True], ids=["", "start"])
@pytest.mark.parametrize("end", [False, True], ids=["", "end"])
def test_sources_begin_and_end_as_the_vocabulary_says(
    start, end, rng, tmp_path
):
    tokens = ["<blank>", "</s>", "<s>", "a", "man", "rides", "<unk>"]
    source = ra.TokenVocabulary(tokens, start=start, end=end)
    target = ra.SubwordVocabulary(
        "\n".join(["<pad>_", "<EOS>_", *"\\_u;0123456789abr"]).encode()
    )
    model = make_model(
        rng,
        vocabulary_size=len(target),
        source_vocabulary_size=len(source),
        share_embeddings="none",
    )
    ra.export_ctranslate2(
        ra.Translator(model, target, source_vocabulary=source),
        tmp_path / "engine",
    )
    (row,) = target.encode(["a r"])
    # The last word is unknown.
    (result,) = engine_of(tmp_path / "engine").score_batch(
        [["a", "man", "runs"]], [target.pieces(row)]
    )
    (encoded,) = source.encode(["a man runs"])
    logits = model(
        {
            "source_token_ids": np.array([[*encoded, source.end_id]]),
            "target_token_ids": np.array([[0, *row]]),
        }
    )
    logits = np.asarray(logits, "float64")[0]
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    labels = [*row, 1]
    np.testing.assert_allclose(
        result.log_probs,
        log_probs[np.arange(len(labels)), labels],
        atol=2e-5,
    )
    saved = tmp_path / "engine" / "source_vocabulary.tokens"
    assert ra.TokenVocabulary.load(saved).tokens == tokens


def test_two_vocabularies_are_told_apart(make_translator, tmp_path):
    translator = make_translator(
        share_embeddings="none", source_vocabulary_size=283
    )
    ra.export_ctranslate2(translator, tmp_path / "engine")
    for side, vocabulary in (
        ("source", translator.source_vocabulary),
        ("target", translator.vocabulary),
    ):
        file = tmp_path / "engine" / f"{side}_vocabulary.model"
        assert file.read_bytes() == vocabulary.model


def test_vocabulary_of_another_model_is_refused(
    make_translator, vocabularies, tmp_path
):
    translator = make_translator()
    translator.vocabulary = vocabularies[283]
    with pytest.raises(ra.InputError, match="target .* 283 .* model 281"):
        ra.export_ctranslate2(translator, tmp_path / "engine")


def test_vocabulary_without_pieces_is_refused(make_translator, tmp_path):
    translator = make_translator()
    translator.source_vocabulary = object()
    with pytest.raises(ra.InputError, match="source .* Received: object"):
        ra.export_ctranslate2(translator, tmp_path / "engine")
