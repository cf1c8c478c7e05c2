"""The part that a process has among those that train together."""

import pytest

from relative_attention.runs.cluster import Cluster

pytestmark = pytest.mark.only_on(
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


def test_single_process_is_the_chief_and_decides_alone(plain):
    assert plain.is_chief
    assert plain.num_replicas == 1
    assert plain.any(True) is True
    assert plain.any(False) is False
    with plain.scope(), plain.chief_first():
        pass


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
