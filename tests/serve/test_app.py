"""Who is let in, what every answer carries, and what the page asks for.

The page itself, in a browser, is in `test_in_a_browser.py`.
"""

import asyncio
import importlib.resources
import re
import threading

import pytest

import relative_attention as ra
from relative_attention.serve import make_app
from tests.serve.client import LIMIT
from tests.serve.client import client_of
from tests.serve.client import with_async_client

TOKEN = "correct-horse"
BODY = {"instances": ["dogs"]}
PREDICT = "/v1/models/mine:predict"
ALTERNATIVES = "/api/models/mine/alternatives"
VIEW = "/api/models/mine/view"
FOLDER = importlib.resources.files("relative_attention.serve") / "page"
OPEN = ("/", "/page.js", "/page.css", "/icon.svg", "/healthz")
CLOSED = (
    ("GET", "/v1/models"),
    ("GET", "/v1/models/mine"),
    ("POST", PREDICT),
    ("GET", "/api/models"),
    ("POST", ALTERNATIVES),
    ("GET", "/metrics"),
    ("GET", "/page.js/../metrics"),
)


@pytest.fixture(scope="module")
def guarded(models):
    with client_of(models, token=TOKEN) as client:
        yield client


@pytest.mark.parametrize(("method", "path"), CLOSED)
def test_request_without_the_token_is_refused(guarded, method, path):
    for given in (
        None,
        TOKEN,
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN.upper()}",
        f"Basic {TOKEN}",
        "Bearer \u00e4\u00f6".encode("latin-1"),
    ):
        headers = {} if given is None else {"Authorization": given}
        response = guarded.request(method, path, json=BODY, headers=headers)
        assert response.status_code == 401, given
        assert response.headers["WWW-Authenticate"] == "Bearer"
        assert "Bearer TOKEN" in response.json()["error"]


def test_token_is_accepted_and_the_page_needs_none(guarded):
    headers = {"Authorization": f"bearer {TOKEN}"}
    for path in ("/v1/models/mine", "/api/models", "/metrics"):
        assert guarded.get(path, headers=headers).status_code == 200
    for path in OPEN:
        assert guarded.get(path).status_code == 200


@pytest.mark.parametrize("path", ["/", "/v1/models/mine", "/nothing"])
def test_answers_forbid_frames_and_scripts_of_others(client, path):
    headers = client.get(path, headers={"Origin": "http://localhost"}).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy and "*" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert not [name for name in headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:81"]
)
def test_request_from_another_origin_is_refused(client, origin):
    response = client.post(PREDICT, json=BODY, headers={"Origin": origin})
    assert response.status_code == 403
    assert "Pages of other servers" in response.json()["error"]


def test_requests_are_counted(models):
    with client_of(models) as client:
        client.post(PREDICT, json={"instances": ["a", "b"]})
        client.post(PREDICT, content="?")
        for number in range(5):
            client.get(f"/path/{number}")
        response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    lines = response.text.splitlines()
    for line in (
        'translator_requests_total{path="predict",status="200"} 1.0',
        'translator_requests_total{path="predict",status="400"} 1.0',
        'translator_requests_total{path="other",status="404"} 5.0',
        'translator_sentences_total{model="mine"} 2.0',
        'translator_model_version{model="mine"} 1.0',
        "translator_batch_sentences_sum 2.0",
        "translator_waiting_requests 0.0",
    ):
        assert line in lines


def test_internal_error_is_one_line(models, monkeypatch):
    from starlette.testclient import TestClient

    monkeypatch.setattr("relative_attention.serve.app.read_predict", None)
    with TestClient(
        make_app(models),
        base_url="http://localhost",
        raise_server_exceptions=False,
    ) as client:
        response = client.post(PREDICT, json=BODY)
    assert response.status_code == 500
    assert response.json() == {"error": "The server failed, see its log."}
    assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_all_work_waits_in_one_queue(models, monkeypatch):
    """While BLEU is computed nothing else is, and no more than may wait."""
    bleu, is_over = threading.Event(), threading.Event()

    def slow_bleu(translations, references):
        bleu.set()
        assert is_over.wait(LIMIT)
        return {}

    monkeypatch.setattr("relative_attention.serve.app._bleu", slow_bleu)
    pair = {"translations": ["a"], "references": ["a"]}
    requests = (
        ("/api/bleu", pair),
        (PREDICT, BODY),
        (ALTERNATIVES, {"sentence": "dogs", "prefix": ""}),
        # Long enough to have its tokens counted.
        (PREDICT, {"instances": ["a" * 3000]}),
    )

    async def scenario(client):
        def ask(path, body):
            return asyncio.create_task(client.post(path, json=body))

        tasks = [ask("/api/bleu", pair)]
        await asyncio.to_thread(bleu.wait, LIMIT)
        tasks += [ask(*request) for request in requests]
        text = ""
        while "translator_waiting_requests 4.0" not in text:
            await asyncio.sleep(0.01)
            text = (await client.get("/metrics")).text
        refused = await client.post("/api/bleu", json=pair)
        assert not any(task.done() for task in tasks)
        is_over.set()
        answers = await asyncio.gather(*tasks)
        assert int(refused.headers["Retry-After"]) >= 1
        assert "requests wait already" in refused.json()["error"]
        return [refused.status_code] + [a.status_code for a in answers]

    found = with_async_client(models, scenario, queue=4)
    assert found == [429, 200, 200, 200, 200, 200]


def test_page_loads_only_its_own_files(client):
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    linked = set(re.findall(r"""(?:href|src)="([^"#]+)""", page.text))
    assert linked == {"icon.svg", "page.css", "page.js"}
    # The policy would not let it run.
    assert not re.search(r"<style|style=|<script>| on\w+=", page.text)
    for name in linked:
        assert client.get(f"/{name}").content == (FOLDER / name).read_bytes()


def test_models_are_listed_with_languages_license_and_examples(client):
    answer = client.get("/api/models").json()
    assert answer["models"] == [
        {
            "name": "mine",
            "description": "Captions to German",
            "languages": ["en", "de"],
            "license": {
                "title": "License: free",
                "attribution": "Captions of many.",
                "paragraphs": [
                    "Learned from captions (https://example.org) by many, and "
                    "passed on with:",
                    "Captions of many.",
                ],
            },
            "examples": ["two dogs", "dogs", "two dogs", "dogs", "two dogs"],
            "splits_sentences": False,
            "has_attention": True,
        }
    ]
    assert answer["has_bleu"]


@pytest.mark.parametrize("prefix", ["", "two red"])
def test_alternatives_begin_alike_and_then_differ(client, translator, prefix):
    sentence = "a man rides the bike"
    response = client.post(
        ALTERNATIVES, json={"sentence": sentence, "prefix": prefix}
    )
    found = response.json()["alternatives"]
    assert 2 <= len(found) <= 6
    texts = [alternative["text"] for alternative in found]
    assert len(set(texts)) == len(texts)
    assert all(text.startswith(prefix) for text in texts)
    # The first is the likeliest token, so greedy search goes the same way.
    greedy = ra.Translator(**{**vars(translator), "num_beams": 1})
    begun = greedy.vocabulary.encode([prefix])[0]
    (best,) = greedy.search([sentence], target_prefixes=[prefix])
    likeliest = best.token_ids[: len(begun) + 1]
    assert texts[0].startswith(greedy.vocabulary.decode([list(likeliest)])[0])


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (ALTERNATIVES, {"sentence": "a"}, 400),
        (ALTERNATIVES, {"sentence": "a " * 9999, "prefix": ""}, 413),
        (ALTERNATIVES, {"sentence": "a", "prefix": "a " * 999}, 400),
        (VIEW, {"sentence": "a " * 999, "translation": "b"}, 400),
        ("/api/models/none/view", {}, 404),
        ("/api/bleu", {"translations": ["a"], "references": ["a", "b"]}, 400),
        ("/api/bleu", {"translations": ["a"], "references": [None]}, 400),
    ],
)
def test_invalid_request_of_the_page_is_refused(client, path, body, status):
    response = client.post(path, json=body)
    assert response.status_code == status
    assert "\n" not in response.json()["error"]


def test_bleu_equals_that_of_the_package(client):
    translations = ["Ein Mann fährt ein rotes Rad.", "Zwei Hunde."]
    references = ["Ein Mann fährt ein altes Rad.", "Zwei Hunde laufen."]
    answer = client.post(
        "/api/bleu",
        json={"translations": translations, "references": references},
    ).json()
    bleu = ra.corpus_bleu(translations, references)
    assert answer["bleu"] == pytest.approx(bleu.score)
    assert answer["signature"] == bleu.signature
    each = ra.evaluation.sentence_scores(translations, references, ["bleu"])
    assert answer["sentences"] == pytest.approx(each["bleu"])


def test_view_of_the_package_runs_under_the_policy_of_the_page(client):
    response = client.post(
        VIEW, json={"sentence": "two red dogs", "translation": "dogs"}
    )
    page = response.json()["html"]
    assert "<html" in page and "two red dogs" in page
    # Its own policy names its script and its style, and so does the page's.
    digests = re.findall(r"'sha256-[^']+'", page)
    policy = response.headers["Content-Security-Policy"]
    assert len(digests) == 2 and all(digest in policy for digest in digests)
