"""Machines and devices: who is the chief, TF_CONFIG, and what fits."""

import json
import types

import pytest

import relative_attention as ra
from relative_attention.runs.batch_tokens import choose_batch_tokens
from relative_attention.runs.batch_tokens import largest_budget
from relative_attention.runs.cluster import Cluster
from relative_attention.runs.cluster import check_tf_config
from relative_attention.runs.cluster import choose_strategy

on_tensorflow = pytest.mark.only_on(
    "tensorflow", reason="strategies are TensorFlow's"
)


def cluster_of(jobs, task_type, task_id):
    """A cluster of machines with a device each, seen from one of them."""
    resolver = types.SimpleNamespace(
        cluster_spec=lambda: types.SimpleNamespace(jobs=jobs),
        task_type=task_type,
        task_id=task_id,
    )
    strategy = types.SimpleNamespace(
        cluster_resolver=resolver, num_replicas_in_sync=2
    )
    return Cluster(strategy)


@on_tensorflow
@pytest.mark.parametrize(
    ("jobs", "task_type", "task_id", "is_chief"),
    [
        ({"worker"}, "worker", 0, True),
        ({"worker"}, "worker", 1, False),
        ({"chief", "worker"}, "worker", 0, False),
        ({"chief", "worker"}, "chief", 0, True),
        (set(), "", 0, True),
    ],
)
def test_one_machine_is_the_chief(jobs, task_type, task_id, is_chief):
    assert cluster_of(jobs, task_type, task_id).is_chief is is_chief


TASK = {"type": "worker", "index": 0}
ONE = {"worker": ["a:1"]}


@pytest.mark.parametrize(
    "config",
    [
        "first:2222",
        "[" * 50000,
        [],
        {"cluster": {"worker": ["a"]}, "task": TASK},
        {"cluster": ONE},
        {"cluster": ONE, "task": {"type": "ps"}},
        {"cluster": ONE, "task": {**TASK, "index": 1}},
    ],
    ids=lambda value: str(value)[:40],
)
def test_wrong_cluster_is_refused(config, recipe, monkeypatch):
    text = config if isinstance(config, str) else json.dumps(config)
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ra.InputError, match="TF_CONFIG must be JSON with a"):
        choose_strategy(recipe)


def test_cluster_of_the_readme_is_taken():
    workers = ["first:2222", "[::1]:2222"]
    check_tf_config(json.dumps({"cluster": {"worker": workers}, "task": TASK}))


@pytest.mark.parametrize("limit", [1024, 50_000, 2**30])
def test_largest_budget_is_just_below_what_fits(limit):
    tried = []

    def fits(tokens):
        tried.append(tokens)
        return tokens <= limit

    tokens = largest_budget(fits)
    limit = min(limit, 2**20)
    assert 0.8 * limit <= tokens <= 0.9 * limit
    assert len(tried) <= 20


def test_device_too_small_for_anything_is_reported():
    with pytest.raises(ra.InputError, match="Not even 1,024 tokens"):
        largest_budget(lambda tokens: False)


def test_budget_is_for_short_sentences_and_for_long_ones(recipe, monkeypatch):
    recipe = recipe.override(["training.batch_tokens=auto"])
    most = {32: 2000, recipe.data.max_length: 50_000}
    monkeypatch.setattr("keras.distribution.list_devices", lambda kind: [kind])
    monkeypatch.setattr(
        "relative_attention.runs.batch_tokens._step_fits",
        lambda model, tokens, length: tokens <= most[length],
    )
    lines = []
    tokens = choose_batch_tokens(recipe, lambda: None, lines.append)
    assert 1600 <= tokens <= 1800
    assert lines == [f"batch_tokens: {tokens:,}, the most that fit"]


@on_tensorflow
def test_cpu_has_a_number_of_its_own(recipe):
    lines = []
    recipe = recipe.override(["training.batch_tokens=auto"])
    assert choose_batch_tokens(recipe, None, lines.append) == 4096
    assert "no GPU" in lines[0]
