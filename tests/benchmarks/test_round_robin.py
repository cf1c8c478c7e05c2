"""Turns go there and back, and the first rounds do not count."""

from benchmarks.harness.round_robin import round_robin


def test_every_second_round_goes_backwards():
    order = []

    def turn(name):
        order.append(name)
        return len(order)

    figures = round_robin(["a", "b"], turn, rounds=2, warm_up_rounds=1)
    assert order == ["a", "b", "b", "a", "a", "b"]
    # What the third and later turns returned, by name and round.
    assert figures == {"a": [4, 5], "b": [3, 6]}


def test_without_warm_up_every_round_counts():
    figures = round_robin(["a"], lambda name: name, 3, warm_up_rounds=0)
    assert figures == {"a": ["a", "a", "a"]}
