"""A server whose model runs in CTranslate2."""

import pytest

from relative_attention.serve import load_models
from tests.serve.client import client_of
from tests.serve.conftest import SENTENCES

PREDICT = "/v1/models/mine:predict"
PAGE = "/api/models/mine"


@pytest.fixture(scope="module")
def engine_models(model_folder, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        cache = tmp_path_factory.mktemp("cache")
        patched.setenv("RELATIVE_ATTENTION_CACHE", str(cache))
        yield load_models(
            {"mine": model_folder}, engine="ctranslate2", threads=1
        )


@pytest.fixture(scope="module")
def client(engine_models):
    with client_of(engine_models) as client:
        yield client


def ask(client, path, **body):
    response = client.post(path, json=body)
    return response.status_code, response.json()


def test_predict_equals_the_translator(client, engine_models):
    translator = engine_models["mine"].translator
    status, answer = ask(client, PREDICT, inputs=SENTENCES)
    assert status == 200
    found = answer["outputs"]["translations"]
    assert found == translator.translate(SENTENCES)
    status, answer = ask(
        client, PREDICT, instances=SENTENCES[:2], signature_name="n_best"
    )
    assert status == 200
    assert [len(row["translations"]) for row in answer["predictions"]] == [3, 3]


@pytest.mark.parametrize("prefix", ["", "a man"])
def test_alternatives_with_the_engine(prefix, client):
    status, answer = ask(
        client, f"{PAGE}/alternatives", sentence="two dogs", prefix=prefix
    )
    texts = [one["text"] for one in answer["alternatives"]]
    assert status == 200 and 2 <= len(set(texts)) == len(texts) <= 6
    assert all(text.startswith(prefix) for text in texts)


def test_attention_is_refused_with_the_way_out(client):
    status, answer = ask(
        client, f"{PAGE}/view", sentence="two dogs", translation="dogs"
    )
    assert status == 400
    assert "without `engine` (`--engine`)" in answer["error"]
