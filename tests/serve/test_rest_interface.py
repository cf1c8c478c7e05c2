"""Requests and answers as TensorFlow Serving's documentation has them.

https://github.com/tensorflow/serving/blob/master/tensorflow_serving/g3doc/api_rest.md
"""

import base64

import numpy as np
import pytest

from relative_attention.serve import make_app
from tests.serve.conftest import SENTENCES

PREDICT = "/v1/models/mine:predict"


def columns(found):
    """What a column answer should have, of translations."""
    return {
        "translations": [translation.text for translation in found],
        "scores": pytest.approx([t.score for t in found], abs=1e-5),
    }


def test_status(client):
    expected = {
        "model_version_status": [
            {
                "version": "1",
                "state": "AVAILABLE",
                "status": {"error_code": "OK", "error_message": ""},
            }
        ]
    }
    for path in ("/v1/models/mine", "/v1/models/mine/versions/1"):
        response = client.get(path)
        assert response.status_code == 200
        assert response.json() == expected


def test_metadata_has_the_signatures_of_the_saved_model(client, translator):
    response = client.get("/v1/models/mine/metadata").json()
    assert response["model_spec"] == {
        "name": "mine",
        "signature_name": "",
        "version": "1",
    }
    definitions = response["metadata"]["signature_def"]["signature_def"]
    assert set(definitions) == {"serving_default", "n_best"}
    shapes = {
        name: {
            tensor: (
                info["dtype"],
                [int(dim["size"]) for dim in info["tensor_shape"]["dim"]],
            )
            for side in ("inputs", "outputs")
            for tensor, info in definition[side].items()
        }
        for name, definition in definitions.items()
    }
    assert shapes == {
        name: {
            "sentences": ("DT_STRING", [-1]),
            "translations": ("DT_STRING", [-1, *more]),
            "scores": ("DT_FLOAT", [-1, *more]),
        }
        for name, more in (
            ("serving_default", []),
            ("n_best", [translator.num_beams]),
        )
    }


@pytest.mark.parametrize(
    "inputs", [{"sentences": SENTENCES}, SENTENCES], ids=["named", "alone"]
)
def test_columns(client, translator, inputs):
    response = client.post(PREDICT, json={"inputs": inputs})
    assert response.status_code == 200
    assert response.json() == {"outputs": columns(translator.search(SENTENCES))}


@pytest.mark.parametrize("is_named", [True, False])
def test_rows(client, translator, is_named):
    rows = [{"sentences": s} if is_named else s for s in SENTENCES]
    response = client.post(
        PREDICT, json={"signature_name": "serving_default", "instances": rows}
    )
    assert response.status_code == 200
    assert response.json() == {
        "predictions": [
            {
                "translations": found.text,
                "scores": pytest.approx(found.score, abs=1e-5),
            }
            for found in translator.search(SENTENCES)
        ]
    }


def test_n_best_is_filled_up_as_in_the_saved_model(client, translator):
    asked = {"signature_name": "n_best", "inputs": SENTENCES}
    outputs = client.post(PREDICT, json=asked).json()["outputs"]
    found = translator.search(SENTENCES, translator.num_beams)
    for number, results in enumerate(found):
        missing = translator.num_beams - len(results)
        texts = [result.text for result in results] + [""] * missing
        scores = [result.score for result in results] + [-1e7] * missing
        assert outputs["translations"][number] == texts
        np.testing.assert_allclose(outputs["scores"][number], scores, atol=1e-5)
    # An empty sentence has one result.
    assert outputs["scores"][3] == [0.0, -1e7, -1e7]
    rows = {"signature_name": "n_best", "instances": SENTENCES}
    predictions = client.post(PREDICT, json=rows).json()["predictions"]
    assert [row["translations"] for row in predictions] == (
        outputs["translations"]
    )


@pytest.mark.parametrize("form", ["instances", "inputs", "named"])
def test_sentences_in_base_64(client, translator, form):
    sentence = "a man rides \u00e4"
    encoded = {"b64": base64.b64encode(sentence.encode()).decode()}
    broken = {"b64": base64.b64encode(b"dogs \xff").decode()}
    values = [encoded, broken]
    if form == "named":
        asked = {"inputs": {"sentences": values}}
    else:
        asked = {form: values}
    response = client.post(PREDICT, json=asked)
    expected = translator.translate([sentence, "dogs \ufffd"])
    answer = response.json()
    if form == "instances":
        texts = [row["translations"] for row in answer["predictions"]]
    else:
        texts = answer["outputs"]["translations"]
    assert texts == expected


def test_version_that_is_served(client, translator):
    response = client.post(
        "/v1/models/mine/versions/1:predict", json={"instances": ["dogs"]}
    )
    (row,) = response.json()["predictions"]
    assert [row["translations"]] == translator.translate(["dogs"])


@pytest.mark.parametrize(
    ("method", "path", "status", "error"),
    [
        ("POST", "/v1/models/half:predict", 404, "Latest(half)"),
        ("GET", "/v1/models/half", 404, "Latest(half)"),
        ("GET", "/v1/models/half/metadata", 404, "Latest(half)"),
        (
            "POST",
            "/v1/models/mine/versions/2:predict",
            404,
            "Specific(mine, 2)",
        ),
        ("GET", "/v1/models/mine/versions/7", 404, "Specific(mine, 7)"),
        ("POST", "/v1/models/mine/labels/stable:predict", 404, "label: stable"),
        ("POST", "/v1/models/mine:classify", 400, "Malformed request: POST"),
        ("POST", "/v1/models/mine:regress", 400, "Malformed request: POST"),
        ("POST", "/v1/models/mine", 400, "Malformed request: POST"),
        ("GET", "/v1/models/mine:predict", 400, "Malformed request: GET"),
        ("GET", "/v1/models", 400, "Malformed request: GET /v1/models"),
        ("GET", "/v1/models/mine/", 400, "Malformed request: GET"),
        ("GET", "/v1/models/mine/versions/x", 400, "Malformed request: GET"),
        ("GET", "/v2/models/mine", 404, "Not Found"),
        ("PUT", "/v1/models/mine", 405, "Method Not Allowed"),
    ],
)
def test_path_that_is_wrong(client, method, path, status, error):
    response = client.request(method, path, json={"instances": ["dogs"]})
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    answer = response.json()
    assert list(answer) == ["error"]
    assert error in answer["error"]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("", "must be JSON in UTF-8"),
        ('{"instances": ["a"]', "must be JSON in UTF-8"),
        (b'{"instances": ["\xff"]}', "must be JSON in UTF-8"),
        ('{"instances": ["a"]}'.encode("utf-16"), "must be JSON in UTF-8"),
        ("[" * 100_000, "nested too deeply"),
        ("9" * 5_000, "must be JSON in UTF-8"),
        ("[]", "must be a JSON object"),
        ("null", "must be a JSON object"),
        ("{}", 'either "instances" or "inputs"'),
        ('{"instances": ["a"], "inputs": ["a"]}', "Received: both"),
        ('{"instance": ["a"]}', 'Received: ["instance"]'),
        ('{"instances": []}', "at least one sentence"),
        ('{"instances": {}}', "at least one sentence"),
        ('{"instances": "a"}', 'Received: "a"'),
        ('{"inputs": {"sentences": "a"}}', 'Received: "a"'),
        ('{"inputs": {"sentences": []}}', "at least one sentence"),
        ('{"inputs": {"text": ["a"]}}', 'Received: ["text"]'),
        ('{"inputs": {"b64": "YQ=="}}', "at least one sentence"),
        ('{"instances": [1]}', "`instances[0]` must be a string. Received: 1"),
        ('{"inputs": ["a", null]}', "`inputs[1]` must be a string"),
        ('{"instances": [["a"]]}', "`instances[0]` must be a string"),
        ('{"instances": [{"b64": "?"}]}', "must be base 64"),
        ('{"instances": [{"b64": 1}]}', "must be a string. Received: 1"),
        ('{"instances": ["\\ud800"]}', "half a surrogate pair"),
        ('{"instances": ["a"], "signature_name": "x"}', '"x" not found'),
        ('{"instances": ["a"], "signature_name": [1]}', "[1] not found"),
    ],
)
def test_body_that_is_wrong(client, body, error):
    response = client.post(PREDICT, content=body)
    assert response.status_code == 400
    answer = response.json()
    assert list(answer) == ["error"]
    assert error in answer["error"]
    assert "\n" not in answer["error"] and len(answer["error"]) < 300


def test_what_is_too_large(models):
    from tests.serve.client import client_of

    limits = {"max_bytes": 900, "max_sentences": 3, "max_tokens": 40}
    with client_of(models, **limits) as client:

        def ask(sentences):
            response = client.post(PREDICT, json={"instances": sentences})
            return response.status_code, response.json().get("error")

        assert ask(["dogs"] * 3) == (200, None)
        status, error = ask(["dogs"] * 4)
        assert (status, "at most 3 sentences" in error) == (413, True)
        status, error = ask(["a man rides " * 20])
        assert (status, "at most 40 tokens" in error) == (413, True)
        status, error = ask(["a" * 1000])
        assert (status, "at most 900 bytes" in error) == (413, True)

        def parts():
            yield from [b"[" * 100] * 20

        # A length that nobody announced.
        response = client.post(PREDICT, content=parts())
        assert response.status_code == 413
        assert ask(["dogs"]) == (200, None)


def test_what_nobody_foresaw_is_one_line_too(models, monkeypatch):
    from starlette.testclient import TestClient

    def fail(*_):
        raise RuntimeError("secret")

    monkeypatch.setattr("relative_attention.serve.rest_api.status", fail)
    app = make_app(dict(models))
    with TestClient(
        app, base_url="http://localhost", raise_server_exceptions=False
    ) as client:
        response = client.get("/v1/models/mine")
    assert response.status_code == 500
    assert response.json() == {"error": "The server failed, see its log."}
    assert response.headers["X-Content-Type-Options"] == "nosniff"
