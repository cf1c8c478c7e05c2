import io
import types

import pytest

from relative_attention.training import ProgressLine


class Number:
    """A number on a device: whoever reads it waits."""

    def __init__(self, value):
        self.value = value
        self.num_reads = 0

    def __float__(self):
        self.num_reads += 1
        return self.value


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is set."""
    clock = types.SimpleNamespace(now=100.0)
    monkeypatch.setattr("time.perf_counter", lambda: clock.now)
    return clock


def make_line(total_steps=20, is_terminal=False, **arguments):
    file = io.StringIO()
    file.isatty = lambda: is_terminal
    line = ProgressLine(total_steps=total_steps, file=file, **arguments)
    line.set_model(
        types.SimpleNamespace(optimizer=types.SimpleNamespace(iterations=10))
    )
    return line, file


LOGS = {
    "loss": 2.5,
    "perplexity": 12.25,
    "accuracy": 0.5,
    "tokens": 1000.0,
    "skipped": 0.0,
}


def test_line_says_what_is_looked_at(clock):
    line, file = make_line()
    line.on_epoch_begin(0)
    clock.now = 102.0
    line.on_train_batch_end(9, dict(LOGS))
    line.on_epoch_end(
        0, {**LOGS, "val_loss": 2.25, "val_tokens": 9.0, "val_bleu": 31.256}
    )
    assert file.getvalue() == (
        "[##########          ] step 10/20 loss 2.5 perplexity 12.25 "
        "accuracy 0.5 500 tokens/s 0:00:02 left "
        "| validation loss 2.25 BLEU 31.26\n"
    )


def test_speed_leaves_out_tokens_of_before_a_resume(clock):
    line, _ = make_line(first_tokens=900.0)
    line.on_epoch_begin(0)
    clock.now += 2.0
    line.on_train_batch_end(0, {"tokens": 1000.0})
    logs = {"tokens": 1000.0}
    line.on_epoch_end(0, logs)
    assert logs["tokens_per_second"] == 50.0


def test_skipped_updates_are_shown_where_there_are_any(clock):
    line, file = make_line(num_steps=lambda: 12)
    line.on_epoch_begin(0)
    line.on_train_batch_end(1, dict(LOGS))
    line.on_epoch_end(0, {**LOGS, "skipped": 2.0})
    assert "step 12/20" in file.getvalue()
    assert "accuracy 0.5 skipped 2 " in file.getvalue()


def test_speed_leaves_out_the_first_step_and_validation(clock):
    line, file = make_line()
    line.on_epoch_begin(0)
    clock.now += 60.0  # compiles
    line.on_train_batch_end(0, {"tokens": 100.0})
    clock.now += 2.0
    line.on_train_batch_end(4, {"tokens": 500.0})
    line.on_test_begin()
    clock.now += 30.0  # validates
    logs = {"tokens": 500.0}
    line.on_epoch_end(0, logs)
    assert logs["tokens_per_second"] == pytest.approx(200.0)
    # 10 steps at half a second.
    assert "0:00:05 left" in file.getvalue()
    line.on_epoch_begin(1)
    line.on_train_batch_end(0, {"tokens": 100.0})
    clock.now += 2.0
    line.on_train_batch_end(4, {"tokens": 500.0})
    line.on_epoch_end(1, {})
    # And two validations of 30 seconds.
    assert "0:01:05 left" in file.getvalue().split("\n")[1]


def test_metrics_that_go_on_after_a_resume_do_not_count_as_speed(clock):
    line, _ = make_line()
    line.on_epoch_begin(0)
    line.on_train_batch_end(0, {"tokens": 1_000_000.0})
    clock.now += 1.0
    line.on_train_batch_end(1, {"tokens": 1_000_100.0})
    logs = {}
    line.on_epoch_end(0, logs)
    assert logs["tokens_per_second"] == pytest.approx(100.0)


def test_speed_is_in_the_logs_of_the_last_step(clock):
    line, _ = make_line()
    line.set_params({"steps": 2})
    line.on_epoch_begin(0)
    clock.now += 1.0
    for batch in range(2):
        logs = {"tokens": 100.0 * batch}
        line.on_train_batch_end(batch, logs)
        clock.now += 1.0
        assert ("tokens_per_second" in logs) == (batch == 1)
    assert logs["tokens_per_second"] == pytest.approx(100.0)


def test_epoch_of_validation_alone_keeps_its_speed(clock):
    line, file = make_line()
    line.on_epoch_begin(0)
    line.on_test_begin()
    clock.now += 5.0
    logs = {"loss": 2.5, "tokens_per_second": 123.0, "val_loss": 2.0}
    line.on_epoch_end(0, logs)
    assert logs["tokens_per_second"] == 123.0
    assert file.getvalue().endswith("step 10/20 loss 2.5 | validation loss 2\n")


def test_device_is_waited_for_only_when_the_line_is_shown(clock):
    line, file = make_line(is_terminal=True)
    line.on_epoch_begin(0)
    numbers = [Number(2.5) for _ in range(8)]
    for batch, number in enumerate(numbers):
        line.on_train_batch_end(batch, {"loss": number, "tokens": 10.0})
        clock.now += 0.2
    # More than half a second lies between two lines.
    assert [number.num_reads for number in numbers] == [0, 0, 0, 1, 0, 0, 1, 0]
    assert file.getvalue().count("\r") == 2


def test_nothing_is_read_between_epochs_without_a_terminal(clock):
    line, file = make_line()
    line.on_epoch_begin(0)
    number = Number(2.5)
    for batch in range(8):
        line.on_train_batch_end(batch, {"loss": number, "tokens": 10.0})
        clock.now += 1.0
    assert number.num_reads == 0
    assert file.getvalue() == ""


def test_line_on_a_terminal_never_wraps(clock, monkeypatch):
    line, file = make_line(is_terminal=True)
    monkeypatch.setattr(
        "relative_attention.training.progress_line._columns", lambda file: 40
    )
    line.on_epoch_begin(0)
    for batch in range(2):
        line.on_train_batch_end(batch, dict(LOGS))
        clock.now += 1.0
    text = file.getvalue().removeprefix("\r").removesuffix("\x1b[K")
    assert len(text) == 39
    assert text.startswith("step 10/20 loss 2.5 perplexity")
