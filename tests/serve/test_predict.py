"""Requests and answers as TensorFlow Serving's documentation has them.

https://github.com/tensorflow/serving/blob/master/tensorflow_serving/g3doc/api_rest.md
"""

import asyncio
import gzip
import json
import os

import numpy as np
import pytest

from relative_attention.serve import load_models
from tests.serve.client import client_of
from tests.serve.client import with_async_client
from tests.serve.conftest import SENTENCES
from tests.small_models import WORDS

PREDICT = "/v1/models/mine:predict"
# `make test-load` asks for 10,000.
MANY = int(os.environ.get("RELATIVE_ATTENTION_ANSWERS", 500))


def test_models_are_listed_as_by_kserve(models):
    with client_of({**models, "other one": models["mine"]}) as client:
        response = client.get("/v1/models")
    assert response.json() == {"models": ["mine", "other one"]}


def test_status(client):
    response = client.get("/v1/models/mine")
    assert response.status_code == 200
    assert response.json() == {
        "model_version_status": [
            {
                "version": "1",
                "state": "AVAILABLE",
                "status": {"error_code": "OK", "error_message": ""},
            }
        ]
    }


@pytest.mark.parametrize("is_named", [True, False], ids=["named", "alone"])
def test_columns_and_rows(client, translator, is_named):
    found = translator.search(SENTENCES)
    texts = [translation.text for translation in found]
    scores = [pytest.approx(t.score, abs=1e-5) for t in found]
    inputs = {"sentences": SENTENCES} if is_named else SENTENCES
    response = client.post(PREDICT, json={"inputs": inputs})
    assert response.status_code == 200
    were_cut = [False] * len(texts)
    columns = {"translations": texts, "scores": scores, "was_cut": were_cut}
    assert response.json() == {"outputs": columns}
    rows = [{"sentences": s} if is_named else s for s in SENTENCES]
    response = client.post(
        PREDICT, json={"signature_name": "serving_default", "instances": rows}
    )
    assert response.status_code == 200
    assert response.json() == {
        "predictions": [
            {"translations": text, "scores": score, "was_cut": False}
            for text, score in zip(texts, scores)
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


@pytest.mark.parametrize(
    ("method", "path", "status", "error"),
    [
        ("POST", "/v1/models/half:predict", 404, "no model 'half'"),
        ("GET", "/v1/models/half", 404, "no model 'half'"),
        ("GET", "/v1/models/mine:predict", 405, "Method Not Allowed: GET"),
        ("GET", "/v1/models/mine:classify", 404, "Not Found: GET /v1"),
        ("POST", "/v1/models/mine:classify", 404, "Not Found: POST /v1"),
        ("POST", "/v1/models/mine", 405, "Method Not Allowed: POST"),
        ("POST", "/api/nothing", 404, "Not Found: POST /api/nothing"),
        ("POST", "/page.js", 405, "Method Not Allowed: POST"),
        ("GET", "/api/bleu", 405, "Method Not Allowed: GET"),
        ("GET", "/healthz/", 404, "Not Found: GET /healthz/"),
        ("GET", "/v2/models/mine", 404, "Not Found: GET /v2/models/mine"),
    ],
)
def test_unknown_path_is_refused(client, method, path, status, error):
    response = client.request(method, path, json={"instances": ["dogs"]})
    assert response.status_code == status
    assert list(response.json()) == ["error"]
    assert error in response.json()["error"]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"instances": ["\xff"]}', "must be JSON in UTF-8"),
        ("[" * 100_000, "must be JSON in UTF-8"),
        ("[]", "must be a JSON object"),
        ('{"instances": ["a"], "inputs": ["a"]}', "Received: both"),
        ('{"instances": []}', "at least one sentence"),
        ('{"inputs": {"text": ["a"]}}', "Received: ['text']"),
        ('{"inputs": ["a", null]}', "`inputs[1]` must be a string"),
        ('{"instances": ["\\ud800"]}', "half a surrogate pair"),
        ('{"instances": ["a"], "signature_name": "x"}', "'x' not found"),
    ],
)
def test_invalid_body_is_refused(client, body, error):
    response = client.post(PREDICT, content=body)
    assert response.status_code == 400
    answer = response.json()
    assert list(answer) == ["error"]
    assert error in answer["error"]
    assert "\n" not in answer["error"] and len(answer["error"]) < 300


def test_compressed_body_is_refused(client):
    body = gzip.compress(b'{"instances": ["dogs"]}')
    headers = {"Content-Encoding": "gzip"}
    response = client.post(PREDICT, content=body, headers=headers)
    assert response.status_code == 415
    assert "must not be compressed. Received" in response.json()["error"]
    assert response.headers["Accept-Encoding"] == "identity"
    headers = {"Content-Encoding": "identity"}
    body = gzip.decompress(body)
    response = client.post(PREDICT, content=body, headers=headers)
    assert response.status_code == 200


def test_too_large_request_is_refused(models):
    limits = {"max_bytes": 900, "max_sentences": 3, "max_tokens": 40}
    with client_of(models, **limits) as client:
        for sentences, limit in (
            (["dogs"] * 4, "3 sentences"),
            (["a man rides " * 20], "40 tokens"),
            (["a" * 1000], "900 bytes"),
        ):
            response = client.post(PREDICT, json={"instances": sentences})
            assert response.status_code == 413
            assert f"at most {limit}" in response.json()["error"]
        # A body whose length nobody announced.
        response = client.post(PREDICT, content=iter([b"[" * 100] * 20))
        assert response.status_code == 413
        response = client.post(PREDICT, json={"instances": ["dogs"] * 3})
        assert response.status_code == 200


LEAVES = (None, True, -1, 1e308, 10**40, "", "dogs", "\ud800", "\0", "n_best")
KEYS = ("instances", "inputs", "sentences", "signature_name", "x")


def random_value(rng, depth=0):
    """A JSON value of any kind and shape."""
    kind = rng.integers(4 if depth < 4 else 2)
    if kind < 2:
        return LEAVES[rng.integers(len(LEAVES))]
    values = [random_value(rng, depth + 1) for _ in range(rng.integers(4))]
    if kind == 2:
        return values
    return {KEYS[rng.integers(len(KEYS))]: value for value in values}


def test_random_requests_get_an_answer_in_one_line(client):
    """Whatever is sent, the answer is one line, and the server lives on."""
    rng = np.random.default_rng(20)
    seen = set()
    for _ in range(400):
        body = bytearray(json.dumps(random_value(rng)).encode())
        if rng.random() < 0.4:
            body[rng.integers(len(body))] = rng.integers(256)
        paths = (PREDICT, "/api/models/mine/alternatives", "/api/bleu")
        path = paths[rng.choice(3, p=(0.6, 0.2, 0.2))]
        response = client.post(path, content=bytes(body))
        seen.add(response.status_code)
        if response.status_code != 200:
            (error,) = response.json().values()
            assert 0 < len(error) < 600 and "\n" not in error
    assert seen <= {200, 400} and 400 in seen
    response = client.post(PREDICT, json={"instances": ["dogs"]})
    assert response.status_code == 200


def random_sentences(rng, number):
    """Sentences of 1 to 12 words, most of them different."""
    return [
        " ".join(rng.choice(WORDS, int(rng.integers(1, 13))))
        for _ in range(number)
    ]


@pytest.mark.parametrize(
    ("number", "at_a_time"),
    [(80, 32), pytest.param(MANY, 64, marks=pytest.mark.large)],
)
def test_concurrent_answers_equal_those_of_each_alone(
    models, rng, number, at_a_time
):
    translator = models["mine"].translator
    sentences = random_sentences(rng, number)
    requests, expected = [], []
    while sentences:
        size = int(rng.integers(1, 4))
        own, sentences = sentences[:size], sentences[size:]
        signature = "n_best" if rng.random() < 0.3 else ""
        requests.append({"inputs": own, "signature_name": signature})
        num_results = translator.num_beams if signature else 1
        # Each alone: without those of others, or of its own request.
        expected.append([translator.search([s], num_results)[0] for s in own])

    async def scenario(client):
        places = asyncio.Semaphore(at_a_time)

        async def ask(body):
            async with places:
                return await client.post(PREDICT, json=body)

        return await asyncio.gather(*map(ask, requests))

    answers = with_async_client(models, scenario, queue=number)
    for response, results_of_all in zip(answers, expected):
        outputs = response.json()["outputs"]
        for texts, scores, results in zip(
            outputs["translations"], outputs["scores"], results_of_all
        ):
            if isinstance(texts, str):
                texts, scores = [texts], [scores]
            assert texts[: len(results)] == [r.text for r in results]
            np.testing.assert_allclose(
                scores[: len(results)],
                [r.score for r in results],
                rtol=1e-5,
                atol=1e-5,
            )


# === CTranslate2 as the engine ===


def test_engine_answers_but_has_no_attention(
    model_folder, tmp_path, monkeypatch
):
    monkeypatch.setenv("RELATIVE_ATTENTION_CACHE", str(tmp_path))
    models = load_models(
        {"mine": model_folder}, engine="ctranslate2", threads=1
    )
    page = "/api/models/mine"
    with client_of(models) as client:
        answer = client.post(PREDICT, json={"inputs": SENTENCES})
        assert answer.json()["outputs"]["translations"] == (
            models["mine"].translator.translate(SENTENCES)
        )
        begun = {"sentence": "two dogs", "prefix": "a man"}
        answer = client.post(f"{page}/alternatives", json=begun).json()
        texts = [one["text"] for one in answer["alternatives"]]
        assert 2 <= len(set(texts)) == len(texts) <= 6
        assert all(text.startswith("a man") for text in texts)
        pair = {"sentence": "two dogs", "translation": "dogs"}
        answer = client.post(f"{page}/view", json=pair)
    assert answer.status_code == 400
    assert "without `engine` (`--engine`)" in answer.json()["error"]
