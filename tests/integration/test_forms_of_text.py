"""The same words in another form are the same to a model, at every door.

Which forms there are and what becomes of them is in `tests/text`, and what a
SavedModel answers to them in `tests/export/test_saved_model.py`.
"""

import io

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.cli import main
from tests.serve.client import client_of
from tests.small_models import CLEAN
from tests.small_models import FORMS
from tests.small_models import make_model
from tests.small_models import train_vocabulary

TEXTS = list(FORMS.values())
SAME = [CLEAN] * len(TEXTS)
OTHERS = ["a man rides"] * len(TEXTS)


@pytest.fixture(scope="module")
def translator():
    # A random model: another id anywhere is another translation.
    model = make_model(np.random.default_rng(11))
    rows = np.array(model.target_embedding.embeddings)
    # More words than bytes.
    rows[2:259] *= 0.3
    model.target_embedding.embeddings.assign(rows)
    return ra.Translator(
        model,
        train_vocabulary(281),
        num_beams=3,
        max_extra_length=3,
    )


@pytest.fixture(scope="module")
def translation(translator):
    (text,) = translator.translate([CLEAN])
    assert len({text, *translator.translate([f"{CLEAN}.", CLEAN[1:]])}) == 3
    return text


@pytest.fixture(scope="module")
def folder(translator, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "mine"
    ra.save_translator(translator, folder)
    return folder


def test_translator_cleans_its_input(translator, translation):
    (n_best,) = translator.translate([CLEAN], num_results=3)
    assert translator.translate(TEXTS) == [translation] * len(TEXTS)
    assert translator.translate(TEXTS, num_results=3) == [n_best] * len(TEXTS)
    assert translator.translate(["\ufeff\u200b \r\n"]) == [""]


def test_prefixes_are_cleaned(translator):
    expected = translator.search(OTHERS, target_prefixes=SAME)
    assert translator.search(OTHERS, target_prefixes=TEXTS) == expected


def test_scored_texts_are_cleaned(translator):
    for pair in ((TEXTS, OTHERS), (OTHERS, TEXTS)):
        clean = [SAME if text is TEXTS else text for text in pair]
        expected = ra.score_translations(translator, *clean)
        assert ra.score_translations(translator, *pair) == expected


def test_attention_view_cleans_its_input(translator):
    def numbers(*pair):
        view = ra.plot.attention_view(translator, *pair)
        # After the sentences, which are shown as they are.
        return view.to_html().rpartition('"kinds":')[2]

    expected = numbers(CLEAN, "a man")
    assert numbers(CLEAN, "a dog") != expected != ""
    for text in (FORMS["line_end"], FORMS["decomposed"]):
        assert numbers(text, "a  man\n") == expected


def test_training_text_is_cleaned(translator, tmp_path):
    ids = {}
    for name, lines in (("clean", SAME), ("others", TEXTS)):
        # Files have their own rules for line ends.
        lines = [line.replace("\n", " ") for line in lines]
        paths = [tmp_path / f"{name}.{side}" for side in ("en", "de")]
        for path in paths:
            path.write_bytes("\n".join([*lines, "\u200b", ""]).encode())
        corpus = ra.TokenCorpus.prepare(
            ra.ParallelCorpus(*map(str, paths)),
            *[translator.vocabulary] * 2,
            99,
            tmp_path / f"{name} ids",
        )
        # A line without a visible character is empty.
        assert corpus.num_empty == 1
        ids[name] = corpus.checksum
        vocabulary = ra.Vocabulary.train(lines, 300, or_fewer=True)
        ids[f"{name} vocabulary"] = vocabulary.model
    assert ids["clean"] == ids["others"]
    assert ids["clean vocabulary"] == ids["others vocabulary"]


def test_command_cleans_its_input(folder, translation, monkeypatch, capsys):
    # A line feed ends a line there.
    lines = [text.replace("\n", " ").strip(" ") for text in TEXTS]
    typed = io.BytesIO("\r\n".join(lines).encode())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(typed))
    assert main(["translate", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert printed.split("\n") == [*[translation] * len(TEXTS), ""]


@pytest.mark.large
def test_server_cleans_its_input(folder, translation):
    from relative_attention.serve import load_models

    with client_of(load_models({"mine": folder})) as client:
        answer = client.post(
            "/v1/models/mine:predict", json={"inputs": {"sentences": TEXTS}}
        ).json()
    assert answer["outputs"]["translations"] == [translation] * len(TEXTS)


@pytest.mark.only_on("tensorflow", reason="data sets are TensorFlow's")
def test_kerashub_task_cleans_its_input(translator):
    import tensorflow as tf

    preprocessor = ra.hub.TranslationPreprocessor.from_translator(translator)
    expected = preprocessor(SAME, SAME)
    pairs = tf.data.Dataset.from_tensor_slices((TEXTS, TEXTS))
    in_graph = next(iter(pairs.batch(len(TEXTS)).map(preprocessor)))
    for data in (preprocessor(TEXTS, TEXTS), in_graph):
        for array, clean in zip(
            tf.nest.flatten(data), tf.nest.flatten(expected)
        ):
            np.testing.assert_array_equal(array, clean)
    # The tokenizer alone, too, and single texts.
    tokenizer = preprocessor.tokenizer
    (row,) = translator.vocabulary.encode([CLEAN])
    for text in TEXTS:
        assert np.asarray(tokenizer(text)).tolist() == row
        assert np.asarray(tokenizer(tf.constant([text]))[0]).tolist() == row
