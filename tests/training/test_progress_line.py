import io
import types

from relative_attention.training import ProgressLine


def show(is_terminal):
    file = io.StringIO()
    file.isatty = lambda: is_terminal
    line = ProgressLine(total_steps=20, file=file)
    line.set_model(
        types.SimpleNamespace(optimizer=types.SimpleNamespace(iterations=10))
    )
    line.on_epoch_begin(0)
    line.on_train_batch_end(9, {"loss": 2.5, "tokens": 1000.0})
    logs = {"loss": 2.5, "tokens": 1000.0, "val_loss": 2.25}
    line.on_epoch_end(0, logs)
    return file.getvalue(), logs


def test_line_has_step_loss_and_validation():
    text, _ = show(is_terminal=False)
    assert text.startswith("[##########          ] step 10/20 loss 2.5 ")
    assert text.endswith("val_loss 2.25\n")
    assert "tokens/s" in text and "left" in text
    assert text.count("\n") == 1 and "\r" not in text


def test_line_is_rewritten_on_a_terminal():
    text, _ = show(is_terminal=True)
    assert text.startswith("\r") and text.endswith("\n")


def test_speed_is_added_to_the_logs():
    _, logs = show(is_terminal=False)
    assert logs["tokens_per_second"] > 0
