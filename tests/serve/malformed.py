"""Requests that are wrong in ways that chance chooses."""

import json

KEYS = ("instances", "inputs", "sentences", "signature_name", "b64", "x", "")
LEAVES = (
    None,
    True,
    0,
    -1,
    1e308,
    10**40,
    "",
    "dogs",
    "\ud800",
    "\0",
    "n_best",
    "serving_default",
    "YQ==",
    "\u202e\ufeff",
    "a" * 2000,
)
PATHS = (
    "/v1/models/mine:predict",
    "/v1/models/mine/versions/1:predict",
    "/v1/models/mine/versions/99999999999999999999:predict",
    "/v1/models/%00:predict",
    "/v1/models/%2e%2e%2f:predict",
    "/v1/models/mine%3apredict",
    "/v1/models/m%c3%28:predict",
    "/api/models/mine/alternatives",
    "/api/models/none/view",
    "/api/bleu",
    "/v1/a%0a%0db",
    "/%",
)


def random_value(rng, depth=0):
    """A JSON value of any kind and shape."""
    kind = rng.integers(4 if depth < 4 else 2)
    if kind < 2:
        return LEAVES[rng.integers(len(LEAVES))]
    values = [random_value(rng, depth + 1) for _ in range(rng.integers(4))]
    if kind == 2:
        return values
    return {KEYS[rng.integers(len(KEYS))]: value for value in values}


def random_body(rng):
    """Bytes: JSON of any shape, often damaged, or none at all."""
    kind = rng.integers(8)
    if kind == 0:
        return rng.bytes(int(rng.integers(200)))
    if kind == 1:
        return b'{"instances": ' + b"[" * int(rng.integers(5000))
    if kind == 2:
        return b'{"inputs": ["' + b"\\u00" * int(rng.integers(1, 50)) + b'"]}'
    body = bytearray(json.dumps(random_value(rng)).encode())
    if kind > 4 and body:
        for _ in range(rng.integers(1, 4)):
            body[rng.integers(len(body))] = rng.integers(256)
    if kind == 7:
        del body[rng.integers(len(body)) :]
    return bytes(body)
