"""Lines with several sentences: by REST, and as the page gets them."""

import json

import pytest

import relative_attention as ra
from relative_attention.serve import load_models
from tests.serve.client import client_of
from tests.serve.conftest import save_model

PREDICT = "/v1/models/mine:predict"
PAGE = "/api/models/mine/translate"
SENTENCES = ["A man rides.", "Two dogs run by!", "Old bike"]
TEXT = "{}  {} 5 + 5 = 10. {}".format(*SENTENCES)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "mine"
    settings = {"max_source_length": 40, "source_language": "en"}
    save_model(folder, 3, num_beams=2, max_extra_length=3, **settings)
    return load_models({"mine": folder})


@pytest.fixture(scope="module")
def translator(models):
    return models["mine"].translator


@pytest.fixture(scope="module")
def client(models):
    with client_of(models) as client:
        yield client


def predict(client, texts, **more):
    body = {"inputs": {"sentences": texts}, **more}
    # In ASCII, which can also write half a surrogate pair.
    return client.post(PREDICT, content=json.dumps(body))


def test_lines_are_split_translated_and_joined(client, translator):
    first, second, third = translator.translate(SENTENCES)
    whole = translator.translate([TEXT], split_sentences=False)
    assert translator.source_language == "en"
    expected = [
        f"{first} {second} 5 + 5 = 10. {third}",
        "",
        *translator.translate(["no"]),
    ]
    assert whole != expected[:1]
    outputs = predict(client, [TEXT, "", "no"]).json()["outputs"]
    assert outputs["translations"] == expected
    scores = [found.score for found in translator.search(SENTENCES)]
    assert outputs["scores"][:2] == pytest.approx([sum(scores), 0], abs=1e-4)
    told = predict(client, [TEXT], split_sentences=False).json()["outputs"]
    assert told["translations"] == whole
    # Several translations are of the whole line.
    n_best = predict(client, [TEXT], signature_name="n_best").json()["outputs"]
    assert n_best["translations"] == translator.translate([TEXT], 2)


def test_answer_says_which_lines_were_cut(client):
    long = "Two dogs. " + "a man " * 50
    for more in ({}, {"split_sentences": False}, {"signature_name": "n_best"}):
        outputs = predict(client, [long, "dogs"], **more).json()["outputs"]
        assert outputs["was_cut"] == [True, False]
    rows = client.post(PREDICT, json={"instances": [long]}).json()
    assert rows["predictions"][0]["was_cut"] is True


@pytest.mark.parametrize("value", ["yes", 1, None, True])
def test_invalid_split_sentences_is_refused(client, value):
    more = {"signature_name": "n_best"} if value is True else {}
    response = predict(client, ["a"], split_sentences=value, **more)
    assert response.status_code == (200 if value is None else 400)
    if value is not None:
        assert "`split_sentences` must be true or" in response.json()["error"]


@pytest.fixture(scope="module")
def unknown(tmp_path_factory):
    """A client of a model of unknown languages with terms; its translator."""
    folder = tmp_path_factory.mktemp("unknown") / "mine"
    save_model(folder, placeholders=True)
    terms = {"dogs": "Hunde", "bike": "Rad"}
    models = load_models({"mine": folder}, glossary=terms)
    with client_of(models) as client:
        yield client, models["mine"].translator


def test_request_brings_terms_of_its_own(unknown):
    client, translator = unknown
    line = "two red dogs ride the bike"
    first, second = (
        predict(client, [line], **more).json()["outputs"]["translations"]
        for more in ({"glossary": {"dogs": "Welpen", " red\u00a0": "rot"}}, {})
    )
    terms = {"dogs": "Welpen", "bike": "Rad", "red": "rot"}
    other = ra.Translator(**{**vars(translator), "glossary": terms})
    assert first == other.translate([line])
    assert {"rot", "Welpen", "Rad"} <= set(first[0].split())
    # Only of its own.
    assert {"Hunde", "Rad"} <= set(second[0].split())
    assert second == translator.translate([line])


@pytest.mark.parametrize(
    "value",
    [
        ["a"],
        "a.*",
        {"": "x"},
        {" ": "x"},
        {"a": 1},
        {"a": None},
        {"a" * 101: "x"},
        {"a": "x" * 101},
        {"a": "\ud800"},
        {"a": "x", " a": "y"},
        {f"a{number}": "x" for number in range(101)},
    ],
)
def test_invalid_terms_are_refused(client, value):
    response = predict(client, ["a"], glossary=value)
    assert response.status_code == 400
    assert "`glossary` must be an object of at" in response.json()["error"]


def test_terms_for_a_model_without_signs_are_refused(client):
    for value in (None, {}):
        assert predict(client, ["a"], glossary=value).status_code == 200
    response = predict(client, ["a"], glossary={"a": "x"})
    assert response.status_code == 400
    assert "must be left out for this model" in response.json()["error"]


def test_page_gets_the_n_best_of_each_sentence(client, translator, monkeypatch):
    answer = client.post(PAGE, json={"lines": [f"  {TEXT} "]}).json()
    assert answer["max_tokens"] == 40
    (line,) = answer["lines"]
    expected = translator.search(SENTENCES, 2)
    # Without a letter, it is not searched.
    expected.insert(2, [ra.Translation("5 + 5 = 10.", 0.0, was_cut=False)])
    assert [one["sentence"] for one in line] == [
        *SENTENCES[:2],
        "5 + 5 = 10.",
        "Old bike",
    ]
    assert [one["after"] for one in line] == [" ", " ", " ", ""]
    assert [one["is_plain"] for one in line] == [True, True, False, True]
    for sentence, results in zip(line, expected, strict=True):
        texts = [found["text"] for found in sentence["translations"]]
        assert texts == [found.text for found in results]
        assert not sentence["was_cut"]
    assert not line[2]["translations"][0]["is_unsure"]
    listed = client.get("/api/models").json()["models"]
    assert [model["splits_sentences"] for model in listed] == [True]
    monkeypatch.setattr(translator, "usual_case", True)
    ((capitals,),) = client.post(PAGE, json={"lines": ['"RED DOGS"']}).json()[
        "lines"
    ]
    assert capitals["sentence"] == "Red dogs"
    assert capitals["before"] == capitals["after"] == '"'
    # What the page shows is no beginning for the model.
    assert not capitals["is_plain"]


def test_page_has_the_blanks_of_the_line(client, translator, monkeypatch):
    monkeypatch.setattr(translator, "source_language", "ja")
    text = "A man rides\u3002Two dogs run\u3002"
    (line,) = client.post(PAGE, json={"lines": [text]}).json()["lines"]
    assert [one["after"] for one in line] == [" ", ""]
    shown = [
        one["before"] + one["translations"][0]["text"] + one["after"]
        for one in line
    ]
    assert ["".join(shown)] == translator.translate([text])


def test_page_marks_sentences_of_which_the_model_is_unsure(
    client, translator, monkeypatch
):
    # Over (9 / 6) ** 0.6 the log-probabilities of four tokens are -1.1 and
    # -1.3: on either side of -0.3 for each.
    sure, unsure = (
        ra.Translation("Ja.", score, was_cut=False, token_ids=(5, 6, 7, 1))
        for score in (-0.86, -1.02)
    )
    in_parts = ra.Translation("Ja. Ja.", -1.9, False, sentences=(sure, unsure))
    found = [[sure, unsure], [unsure], [in_parts]]
    monkeypatch.setattr(
        translator, "search_prepared", lambda sentences, *_: found
    )
    answer = client.post(PAGE, json={"lines": ["yes", "no", "yes no"]})
    assert [
        [one["is_unsure"] for one in sentence["translations"]]
        for (sentence,) in answer.json()["lines"]
    ] == [[False, True], [True], [True]]


def test_page_gets_the_first_lines_that_fit(models, translator):
    lines = ["a man rides", "two red dogs", "dogs"]
    counts = list(map(len, translator.source_vocabulary.encode(lines)))
    for max_tokens, number in (
        (sum(counts), 3),
        (sum(counts) - 1, 2),
        (counts[0], 1),
    ):
        with client_of(models, max_tokens=max_tokens) as client:
            answer = client.post(PAGE, json={"lines": lines}).json()
            assert [line[0]["sentence"] for line in answer["lines"]] == (
                lines[:number]
            )
    with client_of(models, max_tokens=counts[0] - 1) as client:
        response = client.post(PAGE, json={"lines": lines})
    assert response.status_code == 413
    assert f"Received: {counts[0]}." in response.json()["error"]


def test_model_of_unknown_languages_does_not_split(unknown):
    client, translator = unknown
    found = predict(client, [TEXT]).json()["outputs"]["translations"]
    assert found == translator.translate([TEXT], split_sentences=False)
    response = predict(client, ["a"], split_sentences=True)
    assert response.status_code == 400
    assert "language of its source is unkn" in response.json()["error"]
    listed = client.get("/api/models").json()["models"]
    assert [model["splits_sentences"] for model in listed] == [False]
