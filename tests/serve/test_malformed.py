"""Whatever is sent, the answer is one line, and the server goes on."""

import numpy as np
import pytest

from tests.serve.malformed import PATHS
from tests.serve.malformed import random_body

SEED = 20


def check(client, number, seed):
    rng = np.random.default_rng(seed)
    seen = set()
    for _ in range(number):
        # Most to what translates.
        path = PATHS[0] if rng.random() < 0.6 else PATHS[rng.integers(12)]
        response = client.post(path, content=random_body(rng))
        seen.add(response.status_code)
        if response.status_code == 200:
            # Chance has found a form that is right.
            continue
        assert 400 <= response.status_code < 500, response.text
        answer = response.json()
        assert list(answer) == ["error"]
        assert 0 < len(answer["error"]) < 600
        assert "\n" not in answer["error"]
    assert {400, 404} <= seen
    response = client.post(PATHS[0], json={"instances": ["dogs"]})
    assert response.status_code == 200


def test_malformed_requests(client):
    check(client, 400, SEED)


@pytest.mark.large
def test_thousands_of_malformed_requests(client):
    check(client, 5000, SEED + 1)
