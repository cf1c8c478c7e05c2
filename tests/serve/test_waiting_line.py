"""Who goes next, and with whom."""

import numpy as np

from relative_attention.serve.waiting_line import WaitingLine
from relative_attention.serve.waiting_line import WaitingRequest


class Letters:
    """Work on strings."""

    def run(self, items):
        return items

    def length(self, item):
        return len(item)


WORK = Letters()


def request_of(line, *items, work=WORK):
    request = WaitingRequest(work, [None] * len(items), None, len(items))
    line.add(request, items)
    return request


def taken(line, max_batch):
    return [waiting.item for waiting in line.take(max_batch)]


def test_nobody_waits():
    assert WaitingLine().take(3) == []


def test_first_come_first_served_where_all_are_alike():
    line = WaitingLine()
    for item in "abcde":
        request_of(line, item)
    assert taken(line, 2) == ["a", "b"]
    assert taken(line, 2) == ["c", "d"]
    assert taken(line, 2) == ["e"]
    assert len(line) == 0


def test_next_goes_with_those_of_its_length():
    line = WaitingLine()
    request_of(line, "aaaa")
    for item in ("b", "cccccc", "ddd", "eeeee", "ffffffffff"):
        request_of(line, item)
    assert set(taken(line, 3)) == {"aaaa", "ddd", "eeeee"}
    # `b` came next, so it goes now, whoever is nearer to one another.
    assert taken(line, 2) == ["b", "cccccc"]
    assert taken(line, 2) == ["ffffffffff"]


def test_one_sentence_does_not_wait_for_a_hundred():
    line = WaitingLine()
    request_of(line, *(["x"] * 100))
    line.take(10)
    late = request_of(line, "y")
    assert late in [waiting.request for waiting in line.take(10)]


def test_a_hundred_are_done_although_others_keep_coming():
    line = WaitingLine()
    many = request_of(line, *(["x" * 50] * 100))
    left = 100
    for _ in range(150):
        # More than are taken.
        for _ in range(2):
            request_of(line, "y")
        left -= sum(waiting.request is many for waiting in line.take(2))
    assert left == 0


def test_work_of_different_kinds_is_never_mixed():
    line, other = WaitingLine(), Letters()
    for number in range(6):
        request_of(line, "x", work=(WORK, other)[number % 2])
    for _ in range(2):
        batch = line.take(5)
        assert len(batch) == 3
        assert len({id(waiting.request.work) for waiting in batch}) == 1


def test_request_leaves():
    line = WaitingLine()
    gone = request_of(line, "a", "b", "c")
    request_of(line, "d")
    assert line.num_requests == 2
    line.remove(gone)
    assert line.num_requests == 1
    assert taken(line, 5) == ["d"]


def test_everything_comes_out_once(rng):
    line = WaitingLine()
    given, found = [], []
    for number in range(200):
        items = [
            f"{number}-{index}" + "x" * int(rng.integers(20))
            for index in range(int(rng.integers(1, 9)))
        ]
        given += items
        request_of(line, *items)
        found += taken(line, int(rng.integers(1, 7)))
    while batch := taken(line, 5):
        found += batch
    assert sorted(found) == sorted(given)
    assert np.unique(found).size == len(found)
