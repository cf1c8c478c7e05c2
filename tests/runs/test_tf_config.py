"""`TF_CONFIG`: what is wrong is said before the machines meet."""

import json

import pytest

import relative_attention as ra
from relative_attention.runs.devices import choose_strategy
from relative_attention.runs.tf_config import check_tf_config

TASK = {"type": "worker", "index": 0}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("first:2222", "must be JSON"),
        ("[" * 50000, "must be JSON"),
        ([], "must be a JSON object"),
        ({}, "must have a `cluster`"),
        ({"cluster": {"worker": "a:1"}, "task": TASK}, "list of .*`worker`"),
        ({"cluster": {"worker": [1]}, "task": TASK}, "list of .*`worker`"),
        ({"cluster": {"worker": ["a"]}, "task": TASK}, "list of .*`worker`"),
        ({"cluster": {"worker": ["a:1"]}}, "`type` is one of worker"),
        ({"cluster": {"worker": ["a:1"]}, "task": {"type": "ps"}}, "`type` is"),
        (
            {"cluster": {"worker": ["a:1"]}, "task": {**TASK, "index": 1}},
            "`index` is from 0 to 0",
        ),
        (
            {"cluster": {"worker": ["a:1"]}, "task": {**TASK, "index": "0"}},
            "`index` is from 0 to 0",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_wrong_cluster_is_refused(config, message, monkeypatch):
    text = config if isinstance(config, str) else json.dumps(config)
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ra.InputError, match=message):
        choose_strategy("all")


def test_cluster_of_the_readme_is_taken():
    workers = ["first:2222", "[::1]:2222"]
    check_tf_config(json.dumps({"cluster": {"worker": workers}, "task": TASK}))
