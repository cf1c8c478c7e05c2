"""Who is let in, and what every answer carries."""

import pytest

from tests.serve.client import client_of

TOKEN = "correct-horse"
BODY = {"instances": ["dogs"]}
OPEN = ("/", "/page/page.js", "/page/page.css", "/page/icon.svg", "/healthz")
CLOSED = (
    ("GET", "/v1/models/mine"),
    ("GET", "/v1/models/mine/metadata"),
    ("POST", "/v1/models/mine:predict"),
    ("POST", "/v1/models/none:predict"),
    ("GET", "/api/models"),
    ("POST", "/api/models/mine/alternatives"),
    ("POST", "/api/models/mine/view"),
    ("POST", "/api/bleu"),
    ("GET", "/metrics"),
    ("GET", "/nothing"),
    ("GET", "/page/../metrics"),
    ("GET", "/views/a/b"),
)


@pytest.fixture(scope="module")
def guarded(models):
    with client_of(models, token=TOKEN) as client:
        yield client


@pytest.mark.parametrize(("method", "path"), CLOSED)
def test_nothing_is_let_in_without_its_token(guarded, method, path):
    for given in (
        None,
        "",
        TOKEN,
        "Bearer",
        "Bearer ",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN.upper()}",
        f"Basic {TOKEN}",
        f"Bearer {TOKEN} {TOKEN}",
        "Bearer \u00e4\u00f6".encode("latin-1"),
    ):
        headers = {} if given is None else {"Authorization": given}
        response = guarded.request(method, path, json=BODY, headers=headers)
        assert response.status_code == 401, given
        assert response.headers["WWW-Authenticate"] == "Bearer"
        assert "Bearer TOKEN" in response.json()["error"]


def test_token_lets_in(guarded):
    for scheme in ("Bearer", "bearer"):
        headers = {"Authorization": f"{scheme} {TOKEN}"}
        for path in ("/v1/models/mine", "/api/models", "/metrics"):
            assert guarded.get(path, headers=headers).status_code == 200
        response = guarded.post(
            "/v1/models/mine:predict", json=BODY, headers=headers
        )
        assert response.status_code == 200


@pytest.mark.parametrize("path", OPEN)
def test_page_and_health_need_no_token(guarded, path):
    assert guarded.get(path).status_code == 200


@pytest.mark.parametrize("path", [*OPEN, "/v1/models/mine", "/nothing", "/v1"])
def test_answers_cannot_be_framed_or_scripted_by_others(client, path):
    headers = client.get(path, headers={"Origin": "http://localhost"}).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy and "*" not in policy
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert not [name for name in headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:81", ""]
)
def test_pages_of_others_are_refused(client, origin):
    response = client.post(
        "/v1/models/mine:predict", json=BODY, headers={"Origin": origin}
    )
    assert response.status_code == 403
    assert "Pages of other servers" in response.json()["error"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8501", 200),
        ("127.0.0.1:8501", 200),
        ("[::1]:8501", 200),
        ("evil.example", 403),
        ("localhost.evil.example:8501", 403),
        ("127.0.0.1.evil.example", 403),
    ],
)
def test_name_that_was_made_to_point_here_is_refused(client, host, status):
    response = client.get("/v1/models/mine", headers={"Host": host})
    assert response.status_code == status


def test_host_is_no_part_of_the_path(guarded):
    """A `Host` that would be a path, put before the path."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    headers["Host"] = "x/v1/models/none?"
    response = guarded.get("/v1/models/mine", headers=headers)
    assert response.status_code == 200


def test_with_a_token_any_name_will_do(guarded):
    headers = {"Host": "mt.example", "Authorization": f"Bearer {TOKEN}"}
    assert guarded.get("/api/models", headers=headers).status_code == 200


def test_requests_are_counted(models):
    with client_of(models) as client:
        client.post("/v1/models/mine:predict", json={"instances": ["a", "b"]})
        client.post("/v1/models/mine:predict", content="?")
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
