import math

import pytest

import relative_attention as ra
from relative_attention.training import read_training_table
from relative_attention.training import write_training_table

HISTORY = [
    {"epoch": 1, "step": 10, "seconds": 1.5, "loss": 1 / 3, "val_loss": 0.1},
    {"epoch": 2, "step": 20, "seconds": 2.5, "loss": math.inf, "val_bleu": 7.0},
]


def head(path):
    return path.read_text().split("\n")[0].split(",")


def test_table_read_is_the_history_written(tmp_path):
    write_training_table(HISTORY, tmp_path / "training.csv")
    assert read_training_table(tmp_path / "training.csv") == HISTORY


def test_columns_are_the_same_from_the_first_row_on(tmp_path):
    path = tmp_path / "training.csv"
    write_training_table([], path)
    columns = head(path)
    assert columns[:4] == ["epoch", "step", "seconds", "loss"]
    assert {"val_bleu", "learning_rate", "gradient_norm"} <= set(columns)
    for length in (1, 2):
        write_training_table(HISTORY[:length], path)
        assert head(path) == columns
    write_training_table([*HISTORY, {"step": 30, "of_mine": 1.0}], path)
    assert head(path) == [*columns, "of_mine"]


def test_table_is_whole_when_writing_fails(tmp_path):
    path = tmp_path / "training.csv"
    write_training_table(HISTORY, path)

    class Unwritable:
        def __str__(self):
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_training_table([*HISTORY, {"step": Unwritable()}], path)
    assert read_training_table(path) == HISTORY


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No table of a training"),
        ("step,loss\n1,2\n3\n", "line 3: must have a value"),
        ("step,loss\n1,2,3\n", "line 2: must have a value"),
        ("loss\n1\n", "line 2: .* a `step`"),
        ("step,loss\n1,high\n", "line 2: must hold numbers alone"),
        (b"step\n\xff\n", "is damaged"),
    ],
    ids=["missing", "short", "long", "no_step", "word", "bytes"],
)
def test_damaged_table_is_refused(content, message, tmp_path):
    path = tmp_path / "training.csv"
    if content is not None:
        path.write_bytes(
            content if isinstance(content, bytes) else content.encode()
        )
    with pytest.raises(ra.InputError, match=message):
        read_training_table(path)
