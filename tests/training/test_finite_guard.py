"""Updates that were left out: reported once, or the end of a training."""

import io
import types

import pytest

import relative_attention as ra
from relative_attention.training import FiniteGuard


class Skipped:
    """A number on a device: whoever reads it waits."""

    def __init__(self, value, reads):
        self.value = value
        self.reads = reads

    def __float__(self):
        self.reads.append(self.value)
        return self.value


def make_guard(
    on_nonfinite="skip", first_step=0, lines=(4, 7), first_skipped=0.0
):
    file = io.StringIO()
    guard = FiniteGuard(
        on_nonfinite,
        first_step,
        lambda step: list(lines),
        file=file,
        first_skipped=first_skipped,
    )
    guard.set_model(
        types.SimpleNamespace(
            optimizer=types.SimpleNamespace(learning_rate=0.5)
        )
    )
    guard.on_epoch_begin(0)
    return guard, file


def feed(guard, *skipped):
    for batch, number in enumerate(skipped):
        guard.on_train_batch_end(batch, {"skipped": number})


def test_updates_left_out_are_named_with_their_lines():
    guard, file = make_guard(first_step=999)
    feed(guard, 0.0, 1.0, 1.0, 2.0)
    assert file.getvalue() == ""
    guard.on_epoch_end(0)
    assert file.getvalue() == "".join(
        f"The loss or gradient of update {update} is not finite (learning "
        "rate 0.5; lines 4, 7 of the training text). Skipped.\n"
        for update in ("1,001", "1,003")
    )


def test_many_lines_are_cut_short():
    guard, file = make_guard(lines=range(23))
    feed(guard, 1.0)
    guard.on_test_begin()
    assert "18, 19 and 3 more of the training text" in file.getvalue()


def test_count_begins_anew_with_each_epoch():
    guard, file = make_guard()
    for epoch in range(2):
        guard.on_epoch_begin(epoch)
        feed(guard, 1.0)
        guard.on_epoch_end(epoch)
    assert [line.split()[6] for line in file.getvalue().splitlines()] == [
        "1",
        "2",
    ]


def test_what_was_left_out_before_a_resume_is_not_named_again():
    guard, file = make_guard(first_step=10, first_skipped=2.0)
    feed(guard, 2.0, 3.0)
    guard.on_epoch_end(0)
    assert [line.split()[6] for line in file.getvalue().splitlines()] == ["12"]
    guard.on_epoch_begin(1)
    feed(guard, 1.0)
    guard.on_epoch_end(1)
    assert file.getvalue().count("Skipped") == 2


def test_training_stops_where_that_is_asked_for():
    guard, _ = make_guard("stop")
    feed(guard, 0.0, 1.0)
    with pytest.raises(ra.InputError, match="update 2 .* last checkpoint is"):
        guard.on_epoch_end(0)


def test_device_is_waited_for_once_in_sixteen_steps():
    guard, _ = make_guard()
    reads = []
    numbers = [Skipped(0.0, reads) for _ in range(31)]
    feed(guard, *numbers[:15])
    assert not reads
    feed(guard, *numbers[15:])
    assert len(reads) == 16
