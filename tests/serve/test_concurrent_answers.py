"""Each of many concurrent answers is the one that its request gets alone."""

import asyncio
import os

import numpy as np
import pytest

from relative_attention.serve import ServerSettings
from relative_attention.serve import make_app
from tests.export.tiny_models import WORDS

# `make test-load` asks for 10,000.
MANY = int(os.environ.get("RELATIVE_ATTENTION_ANSWERS", 1_000))


def asked_sentences(rng, number):
    """Sentences of 1 to 12 words, most of them different."""
    return [
        " ".join(rng.choice(WORDS, int(rng.integers(1, 13))))
        for _ in range(number)
    ]


def answers_of(models, requests, at_a_time, **settings):
    """What each request gets, with so many at a time."""
    import httpx2

    async def run():
        app = make_app(dict(models), ServerSettings(**settings))
        transport = httpx2.ASGITransport(app)
        places = asyncio.Semaphore(at_a_time)
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(
                transport=transport, base_url="http://localhost"
            ) as client,
        ):

            async def ask(body):
                async with places:
                    response = await client.post(
                        "/v1/models/mine:predict", json=body, timeout=600
                    )
                assert response.status_code == 200, response.text
                return response.json()

            return await asyncio.gather(*map(ask, requests))

    return asyncio.run(run())


def check_all(models, rng, number, at_a_time):
    sentences = asked_sentences(rng, number)
    translator = models["mine"].translator
    requests, expected = [], []
    place = 0
    while place < number:
        own = sentences[place : place + int(rng.integers(1, 4))]
        place += len(own)
        is_n_best = rng.random() < 0.3
        requests.append(
            {
                "inputs": own,
                "signature_name": "n_best" if is_n_best else "",
            }
        )
        # Alone: nobody else's sentences, and none of its own request, either.
        expected.append(
            [
                translator.search(
                    [sentence], translator.num_beams if is_n_best else 1
                )[0]
                for sentence in own
            ]
        )
    answers = answers_of(models, requests, at_a_time, queue=number)
    for answer, results_of_all in zip(answers, expected):
        outputs = answer["outputs"]
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


def test_answers_are_those_of_each_alone(models, rng):
    check_all(models, rng, 80, at_a_time=32)


@pytest.mark.large
def test_many_answers_are_those_of_each_alone(models, rng):
    check_all(models, rng, MANY, at_a_time=64)


def test_full_server_answers_429(models, rng):
    """Of more requests than may wait some are refused, the rest are right."""
    import httpx2

    sentences = asked_sentences(rng, 40)
    expected = dict(
        zip(sentences, models["mine"].translator.translate(sentences))
    )

    async def run():
        app = make_app(dict(models), ServerSettings(queue=2, max_batch=2))
        transport = httpx2.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(
                transport=transport, base_url="http://localhost"
            ) as client,
        ):
            return await asyncio.gather(
                *(
                    client.post(
                        "/v1/models/mine:predict", json={"inputs": [sentence]}
                    )
                    for sentence in sentences
                )
            )

    responses = asyncio.run(run())
    statuses = [response.status_code for response in responses]
    assert set(statuses) == {200, 429}
    for sentence, response in zip(sentences, responses):
        if response.status_code == 200:
            (text,) = response.json()["outputs"]["translations"]
            assert text == expected[sentence]
        else:
            assert int(response.headers["Retry-After"]) >= 1
            assert "requests wait already" in response.json()["error"]
