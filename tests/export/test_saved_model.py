"""A SavedModel translates as its translator does, without this package."""

import itertools
import sys

import numpy as np
import pytest

import relative_attention as ra
from tests import small_models
from tests.export.fresh_process import serve
from tests.small_models import WORDS
from tests.small_models import train_vocabulary

# Of the vocabulary of `WORDS`.
BLANK_ID = 262
GERMAN = "ein mann rollt ein altes rotes rad über die straße".split()

# What `str.strip` takes away, all of it.
WHITESPACE = [c for c in map(chr, range(0x110000)) if c.isspace()]

# Id: a batch of sentences.
BATCHES = {
    "ordinary": ["a man rides the bike", "two  red dogs", " the old street "],
    "no_sentence": [],
    "empty": ["", "a man", ""],
    "whitespace": [*WHITESPACE, "".join(WHITESPACE), "two dogs"],
    "no_whitespace": ["\u200b", "\ufeff", "\u2060", "\x1b", "\x00", "▁"],
    "long": ["dogs " * 2_000, "x" * 10_000, " " * 10_000, "a man"],
    "forms": [small_models.CLEAN, *small_models.FORMS.values()],
    "emoji": ["two 🚲 by night", "👩‍👩‍👧", "ein Häuschen", "\U0010ffff"],
    "nul": ["two\x00dogs", "dogs\x00", "\x00\x00"],
    "newline_inside": ["two\ndogs", "\ndogs\n", "a\r\nman", "a\u2028man"],
    "spelt_ids": ["<pad> </s> <unk> <0x41> <0x0A>", "\ufefftwo dogs"],
    "many": [" ".join(w) for w in itertools.permutations(WORDS, 2)] * 2,
}
BATCHES["many"] = BATCHES["many"][:257]
# The others are `large`.
BRIEF = ("ordinary", "no_sentence", "empty", "forms", "emoji")

# Bytes that are not UTF-8, and what they are read as.
INVALID = {
    b"\xff": "\ufffd",
    b"two \xc3 dogs": "two \ufffd dogs",
    b"\xe2\x82": "\ufffd",
    b"dogs \x80": "dogs \ufffd",
    b" \xff ": " \ufffd ",
}

SOURCE_IDS = [[5, 270, 9, 1, 0, 0], [3, 1, 0, 0, 0, 0], [7, 8, 9, 260, 261, 1]]


def make_model(**fields):
    """A random model whose translations often begin with blanks."""
    model = small_models.make_model(np.random.default_rng(11), **fields)
    for layer in {model.source_embedding, model.target_embedding}:
        rows = np.array(layer.embeddings)
        # Fewer bytes, most of which spell nothing, than words.
        rows[2:259] *= 0.3
        rows[BLANK_ID] *= 2
        layer.embeddings.assign(rows)
    return model


@pytest.fixture(scope="module")
def translator():
    """With every setting other than the default, each of which tells."""
    return ra.Translator(
        make_model(),
        train_vocabulary(281),
        num_beams=3,
        length_penalty=1.3,
        max_extra_length=3,
        max_source_length=37,
        max_length=15,
        min_length=3,
    )


@pytest.fixture(scope="module")
def exported(translator, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    ra.export_saved_model(translator, folder, warmup=["a man", "", "ein Häus"])
    return folder


@pytest.fixture(scope="module")
def served(exported):
    """Answers to the brief batches, of one process."""
    requests = requests_for({name: BATCHES[name] for name in BRIEF})
    requests |= requests_for({"invalid": list(INVALID)})
    requests["token_ids"] = ("token_ids", SOURCE_IDS)
    return serve(exported, requests, "with_text")


@pytest.fixture(scope="module")
def served_others(exported):
    """Answers to all other batches, of a second process."""
    others = BATCHES.keys() - set(BRIEF)
    requests = requests_for({name: BATCHES[name] for name in others})
    return serve(exported, requests, "with_text")


def requests_for(batches):
    return {
        f"{signature} {name}": (signature, batch)
        for signature in ("serving_default", "n_best")
        for name, batch in batches.items()
    }


def check_best(answer, found):
    assert answer["translations"] == [result.text for result in found]
    check_scores(answer["scores"], found)


def check_scores(scores, found):
    """A score is the sum of a float32 number for each token, made twice.

    Each addition rounds what has been added up so far.
    """
    for score, result in zip(scores, found, strict=True):
        rounding = len(result.token_ids) * np.finfo("float32").eps
        np.testing.assert_allclose(
            score, result.score, rtol=rounding, atol=1e-5
        )


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(name, marks=() if name in BRIEF else pytest.mark.large)
        for name in BATCHES
    ],
)
def test_translations_equal_the_translator(batch, translator, request):
    # The second process starts when asked.
    served = request.getfixturevalue(
        "served" if batch in BRIEF else "served_others"
    )
    expected = translator.search(BATCHES[batch], num_results=3)
    best = served[f"serving_default {batch}"]
    check_best(best, [results[0] for results in expected])
    n_best = served[f"n_best {batch}"]
    for texts, scores, found in zip(
        n_best["translations"], n_best["scores"], expected, strict=True
    ):
        # Where fewer were found.
        num_missing = 3 - len(found)
        texts_found = [result.text for result in found]
        assert texts == texts_found + [""] * num_missing
        check_scores(scores[: len(found)], found)
        assert scores[len(found) :] == [-1e7] * num_missing


def test_leading_blanks_of_a_translation_are_kept(served):
    texts = served["serving_default ordinary"]["translations"]
    # That they are the translator's, the tests above have shown.
    assert [text[:2] == "  " for text in texts] == [True, False, False]
    assert len(set(texts)) == 3


def test_forms_of_one_text_are_one_sentence(served):
    texts = served["serving_default forms"]["translations"]
    assert len(texts) > 2 and len(set(texts)) == 1


def test_invalid_utf8_becomes_replacement_characters(translator, served):
    found = translator.search(list(INVALID.values()))
    check_best(served["serving_default invalid"], found)


def test_token_ids_equal_beam_search(translator, served):
    expected = ra.beam_search(
        translator.model,
        np.array(SOURCE_IDS),
        num_beams=3,
        num_results=3,
        length_penalty=1.3,
        max_extra_length=3,
        max_length=15,
        min_length=3,
    )
    answer = served["token_ids"]
    np.testing.assert_array_equal(answer["token_ids"], expected["token_ids"])
    np.testing.assert_allclose(
        answer["scores"], expected["scores"], rtol=0, atol=1e-5
    )


@pytest.mark.large
def test_warmup_requests_are_readable(exported):
    import tensorflow as tf
    from tensorflow_serving.apis import prediction_log_pb2

    path = exported / "assets.extra" / "tf_serving_warmup_requests"
    sentences = []
    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
        log = prediction_log_pb2.PredictionLog.FromString(record)
        request = log.predict_log.request
        assert request.model_spec.signature_name == "serving_default"
        ((name, proto),) = request.inputs.items()
        assert name == "sentences"
        array = tf.make_ndarray(proto)
        assert array.shape == (1,)
        sentences.append(array[0].decode("utf-8"))
    assert sentences == ["a man", "", "ein Häus"]


@pytest.mark.large
def test_float16_export_with_two_vocabularies(exported, tmp_path):
    """In one export, since each takes seconds."""
    fields = {"source_vocabulary_size": 279, "share_embeddings": "target"}
    settings = {
        "vocabulary": train_vocabulary(281),
        "source_vocabulary": train_vocabulary(279, GERMAN),
        "num_beams": 2,
        "max_extra_length": 4,
    }
    model, rounded = make_model(**fields), make_model(**fields)
    for weight in rounded.weights:
        weight.assign(np.asarray(weight, np.float16))
    folder = tmp_path / "new" / "1"
    translator = ra.Translator(model, **settings)
    ra.export_saved_model(translator, folder, dtype="float16", num_results=1)
    lines = [" ".join(w) for w in itertools.permutations(GERMAN[-4:], 3)]
    answers = serve(
        folder,
        {"n_best": ("n_best", lines)},
        "with_text",
        # Its vocabulary must not take the place of these.
        str(exported),
    )
    # `num_results` is 1.
    answer = {
        name: [value for (value,) in rows]
        for name, rows in answers["n_best"].items()
    }
    check_best(answer, ra.Translator(rounded, **settings).search(lines))
    # It was rounded.
    scores = [result.score for result in translator.search(lines)]
    assert np.abs(scores - np.array(answer["scores"])).max() > 1e-4
    # Half of the weights' own size; of so small a model, the graph is larger.
    num_weights = model.count_params()
    assert 2 * num_weights < size_of_weights(folder) < 2.5 * num_weights
    # The model that was exported is as it was.
    for weight, same in zip(model.weights, make_model(**fields).weights):
        np.testing.assert_array_equal(weight, same)


def size_of_weights(folder):
    return sum(f.stat().st_size for f in folder.glob("variables/*.data-*"))


@pytest.mark.large
def test_token_ids_only_needs_no_tensorflow_text(tmp_path):
    subwords = ra.SubwordVocabulary(b"<pad>_\n<EOS>_\na_\nb_\n")
    translator = ra.Translator(make_model(), subwords, num_beams=1)
    folder = tmp_path / "1"
    ra.export_saved_model(translator, folder, token_ids_only=True)
    answers = serve(folder, {"token_ids": ("token_ids", SOURCE_IDS)})
    assert answers["signatures"] == ["token_ids"]
    expected = ra.beam_search(
        translator.model, np.array(SOURCE_IDS), num_beams=1
    )
    np.testing.assert_array_equal(
        answers["token_ids"]["token_ids"], expected["token_ids"]
    )
    num_weights = translator.model.count_params()
    assert size_of_weights(folder) > 4 * num_weights


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_results": 0}, "between 1 .* 3.*num_results=0"),
        ({"num_results": 4}, "between 1 .* 3.*num_results=4"),
        ({"dtype": "int8"}, "one of .*float16.*'int8'"),
        ({"warmup": "a man"}, r"pass \['a man'\]"),
    ],
    ids=["too_few", "too_many", "dtype", "a_string"],
)
def test_wrong_argument_is_refused(arguments, message, translator, tmp_path):
    with pytest.raises((ValueError, TypeError), match=message):
        ra.export_saved_model(translator, tmp_path / "new", **arguments)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("side", ["vocabulary", "source_vocabulary"])
def test_vocabulary_in_python_is_refused(side, translator, tmp_path):
    vocabularies = {
        "vocabulary": translator.vocabulary,
        "source_vocabulary": translator.vocabulary,
        side: ra.SubwordVocabulary(b"<pad>_\n<EOS>_\na_\n"),
    }
    other = ra.Translator(translator.model, **vocabularies)
    with pytest.raises(
        ra.InputError, match=r"A SubwordVocabulary .*\(`token_ids_only`\)"
    ):
        ra.export_saved_model(other, tmp_path / "new")
    assert not list(tmp_path.iterdir())


def test_missing_package_dtype_or_backend_is_refused(
    translator, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "tensorflow_serving", None)
    monkeypatch.setattr(
        "tensorflow.saved_model.save", lambda *_, **__: pytest.fail("worked")
    )
    with pytest.raises(ra.InputError, match=r"pip install '\.\[serving\]'"):
        ra.export_saved_model(translator, tmp_path / "new", warmup=["a man"])
    with monkeypatch.context() as patch:
        patch.setattr(type(translator.model), "compute_dtype", "bfloat16")
        with pytest.raises(ra.InputError, match="computes in bfloat16. Load"):
            ra.export_saved_model(translator, tmp_path / "new")
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    with pytest.raises(ra.InputError, match="Set KERAS_BACKEND=tensorflow"):
        ra.export_saved_model(translator, tmp_path / "new")
    assert not list(tmp_path.iterdir())


@pytest.mark.large
def test_ensemble_is_exported(several, tmp_path):
    translator = ra.load_translator([several / "a", several / "c"])
    ra.export_saved_model(translator, tmp_path / "exported")
    sentences = ["a man rides the bike", "two red dogs", ""]
    requests = {"text": ("serving_default", sentences)}
    answer = serve(tmp_path / "exported", requests, "with_text")["text"]
    wanted = translator.search(sentences)
    assert answer["translations"] == [t.text for t in wanted]
    scores = [t.score for t in wanted]
    assert answer["scores"] == pytest.approx(scores, abs=1e-4)
    # Both models are in the file.
    count = sum(model.count_params() for model in translator.model.models)
    assert size_of_weights(tmp_path / "exported") > 4 * count
