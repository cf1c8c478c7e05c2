"""Machines and devices: who is the chief, TF_CONFIG, and what fits."""

import json

import pytest

import relative_attention as ra
from relative_attention.runs.cluster import Cluster
from relative_attention.runs.cluster import UpdateSize
from relative_attention.runs.cluster import check_tf_config
from relative_attention.runs.cluster import choose_batch_tokens
from relative_attention.runs.cluster import choose_strategy
from relative_attention.runs.cluster import largest_budget

on_tensorflow = pytest.mark.only_on(
    "tensorflow", reason="strategies are TensorFlow's"
)


class Resolver:
    """Stands in for what knows the machines."""

    def __init__(self, jobs, task_type, task_id):
        self.jobs = jobs
        self.task_type = task_type
        self.task_id = task_id

    def cluster_spec(self):
        return self


class Strategy:
    """Stands in for a strategy of several machines with a device each."""

    def __init__(self, *resolver):
        self.cluster_resolver = Resolver(*resolver)
        self.num_replicas_in_sync = 2


@pytest.fixture
def plain():
    import tensorflow as tf

    return Cluster(tf.distribute.get_strategy())


@on_tensorflow
@pytest.mark.parametrize(
    ("jobs", "task_type", "task_id", "is_chief"),
    [
        ({"worker"}, "worker", 0, True),
        ({"worker"}, "worker", 1, False),
        ({"chief", "worker"}, "worker", 0, False),
        ({"chief", "worker"}, "chief", 0, True),
        ({"worker", "evaluator"}, "evaluator", 0, False),
        (set(), "", 0, True),
    ],
)
def test_one_machine_is_the_chief(jobs, task_type, task_id, is_chief):
    assert Cluster(Strategy(jobs, task_type, task_id)).is_chief is is_chief


@on_tensorflow
def test_single_process_is_the_chief_and_decides_alone(plain):
    assert plain.is_chief
    assert plain.num_replicas == 1
    assert plain.any(True) is True
    assert plain.any(False) is False
    with plain.scope(), plain.chief_first():
        pass


@on_tensorflow
@pytest.mark.parametrize("task_id", [0, 1], ids=["chief", "other"])
def test_chief_votes_after_its_turn_and_others_before_theirs(
    task_id, monkeypatch
):
    cluster = Cluster(Strategy({"worker"}, "worker", task_id))
    steps = []
    monkeypatch.setattr(cluster, "any", lambda flag: steps.append("vote"))
    with cluster.chief_first():
        steps.append("turn")
    assert steps == (["turn", "vote"] if task_id == 0 else ["vote", "turn"])


@on_tensorflow
def test_votes_of_all_devices_are_summed(monkeypatch):
    """As on two machines, of which the other one says yes."""
    cluster = Cluster(Strategy({"worker"}, "worker", 0))
    others = 1.0
    monkeypatch.setattr(
        cluster, "_sum_of_votes", lambda vote: vote + others, raising=False
    )
    assert cluster.any(False) is True
    others = 0.0
    assert cluster.any(False) is False
    assert cluster.any(True) is True


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


@pytest.mark.parametrize("limit", [1024, 1500, 4096, 50_000, 2**30])
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


def test_number_of_the_recipe_is_taken_without_trying(recipe):
    assert choose_batch_tokens(recipe, None, None) == 512


@pytest.mark.only_on("tensorflow", reason="devices are TensorFlow's")
def test_cpu_has_a_number_of_its_own(recipe):
    lines = []
    recipe = recipe.override(["training.batch_tokens=auto"])
    assert choose_batch_tokens(recipe, None, lines.append) == 4096
    assert "no GPU" in lines[0]


@pytest.mark.parametrize(
    ("update_tokens", "num_parts"), [(6, 1), (600, 1), (601, 2), (1800, 3)]
)
def test_no_part_of_an_update_is_larger_than_devices_take(
    update_tokens, num_parts
):
    size = UpdateSize(300, update_tokens, num_replicas=2)
    assert size.tokens_at_a_time == 600
    assert size.num_parts == num_parts
