"""The page and what it asks for; in a browser see `test_in_a_browser.py`."""

import html.parser
import importlib.resources
import re

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.serve.alternatives import find_alternatives
from relative_attention.serve.views import Views
from tests.serve.client import client_of

FOLDER = importlib.resources.files("relative_attention.serve") / "page"
ALTERNATIVES = "/api/models/mine/alternatives"


class Page(html.parser.HTMLParser):
    """Keeps the tags of a page, each a name and its attributes."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))


@pytest.fixture(scope="module")
def page():
    return Page((FOLDER / "index.html").read_text("utf-8"))


def test_files_are_served_as_what_they_are(client, page):
    response = client.get("/")
    assert response.headers["content-type"].startswith("text/html")
    linked = {
        attributes.get("href") or attributes.get("src")
        for tag, attributes in page.tags
        if tag in ("link", "script", "img")
    }
    assert linked == {"/page/icon.svg", "/page/page.css", "/page/page.js"}
    for path in linked:
        response = client.get(path)
        assert response.status_code == 200
        name = path.rpartition("/")[2]
        assert response.content == (FOLDER / name).read_bytes()
    assert client.get("/page/none.js").status_code == 404


def test_nothing_is_fetched_from_elsewhere_and_no_text_is_made_markup():
    for file in FOLDER.iterdir():
        text = file.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|@import|url\(", text), file
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", text
        ), file


def test_page_has_no_code_or_style_of_its_own(page):
    """The policy would not let it run."""
    for tag, attributes in page.tags:
        assert tag != "style"
        assert tag != "script" or "src" in attributes
        assert not [a for a in attributes if a.startswith("on")]
        assert "style" not in attributes


def test_every_control_has_a_label(page):
    labelled = {a["for"] for tag, a in page.tags if tag == "label"}
    for tag, attributes in page.tags:
        if tag in ("textarea", "select", "input"):
            assert attributes["id"] in labelled
        if tag == "iframe":
            assert attributes["title"] and "sandbox" in attributes
        if tag == "section":
            names = {a.get("id") for _, a in page.tags}
            assert attributes["aria-labelledby"] in names
    assert ("html", {"lang": "en"}) in page.tags


def test_models_are_listed(client):
    answer = client.get("/api/models").json()
    assert answer["models"] == [{"name": "mine", "version": 1}]


@pytest.mark.parametrize("prefix", ["", "red", "two red"])
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
    scored = client.post(
        ALTERNATIVES, json={"sentence": sentence, "prefix": prefix}
    ).json()["alternatives"]
    np.testing.assert_allclose(
        [a["score"] for a in scored], [a["score"] for a in found], atol=1e-5
    )
    likeliest = best.token_ids[: len(begun) + 1]
    assert texts[0].startswith(greedy.vocabulary.decode([list(likeliest)])[0])


def test_score_of_an_alternative_is_that_of_its_tokens(translator):
    """log P / ((5 + len) / 6)^alpha, of what the model says of each token."""
    for found in find_alternatives(translator, "two red dogs", "a man", 3):
        if found.token_ids[-1] != 1:
            # Cut at its limit: not penalised.
            continue
        length = len(found.token_ids)
        logits = np.asarray(
            translator.model(
                {
                    "source_token_ids": np.array([found.source_token_ids]),
                    "target_token_ids": np.array([(0, *found.token_ids[:-1])]),
                }
            ),
            "float64",
        )[0]
        log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        total = log_probs[np.arange(length), found.token_ids].sum()
        expected = total / ((5 + length) / 6) ** translator.length_penalty
        assert found.score == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (ALTERNATIVES, {"sentence": "a"}, 400),
        (ALTERNATIVES, {"sentence": 1, "prefix": ""}, 400),
        (ALTERNATIVES, {"sentence": "a " * 9999, "prefix": ""}, 413),
        (ALTERNATIVES, {"sentence": "a", "prefix": "a " * 999}, 400),
        ("/api/models/none/alternatives", {}, 404),
        ("/api/models/none/view", {}, 404),
        ("/api/bleu", {"translations": ["a"]}, 400),
        ("/api/bleu", {"translations": [], "references": []}, 400),
        ("/api/bleu", {"translations": ["a"], "references": ["a", "b"]}, 400),
        ("/api/bleu", {"translations": ["a"], "references": [None]}, 400),
    ],
)
def test_what_is_wrong_is_one_line(client, path, body, status):
    response = client.post(path, json=body)
    assert response.status_code == status
    assert "\n" not in response.json()["error"]


def test_bleu_is_that_of_the_package(client):
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


def test_view_is_kept_under_a_name_and_may_run_its_own_code_alone(
    models, monkeypatch
):
    class View:
        def to_html(self):
            return "<p>seen</p>"

    def attention_view(translator, sentence, translation):
        assert translator is models["mine"].translator
        assert translation in (None, "Hunde")
        if sentence != "dogs":
            raise ra.InputError("too\nlong")
        return View()

    monkeypatch.setattr(
        "relative_attention.serve.page_api.attention_view", attention_view
    )
    with client_of(models, token="x") as client:
        answer = client.post(
            "/api/models/mine/view",
            json={"sentence": "dogs"},
            headers={"Authorization": "Bearer x"},
        )
        path = answer.json()["path"]
        # A frame brings no token.
        shown = client.get(path)
        assert shown.text == "<p>seen</p>"
        policy = shown.headers["Content-Security-Policy"]
        assert policy.startswith("sandbox allow-scripts")
        assert "allow-same-origin" not in policy
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'self'" in policy
        assert "unsafe" not in policy
        assert client.get(f"{path}x").status_code == 404
        for body, status in (
            ({"sentence": "dogs", "translation": "Hunde"}, 200),
            ({"sentence": "dogs", "translation": 1}, 400),
            ({"sentence": "cats"}, 400),
        ):
            answer = client.post(
                "/api/models/mine/view",
                json=body,
                headers={"Authorization": "Bearer x"},
            )
            assert answer.status_code == status
        assert answer.json() == {"error": "too long"}


def test_views_are_kept_for_a_while_and_not_too_many(monkeypatch):
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    views = Views()
    names = [views.put(str(number)) for number in range(20)]
    found = [views.get(name) for name in names]
    assert found == [None] * 4 + [str(number) for number in range(4, 20)]
    now += 601
    assert [views.get(name) for name in names] == [None] * 20
    # Nor do they stay in memory.
    assert not views._pages


def test_view_of_the_package(client):
    answer = client.post(
        "/api/models/mine/view", json={"sentence": "two red dogs"}
    )
    page = client.get(answer.json()["path"]).text
    assert "<html" in page and "two red dogs" in page
    # It loads nothing.
    assert "http://" not in page.replace("http://www.w3.org/", "")
    assert "https://" not in page
