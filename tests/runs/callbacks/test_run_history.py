"""The validations of a run, and the files that hold them."""

import json
import math

import pytest

from relative_attention.runs.callbacks.run_history import RunHistory
from relative_attention.training import read_training_table


def history(best_by, *values):
    result = RunHistory(".", best_by)
    result.records = [{f"val_{best_by}": value} for value in values]
    return result


@pytest.mark.parametrize(
    ("best_by", "before", "value", "is_best"),
    [
        ("loss", (), 5.0, True),
        ("loss", (5.0, 3.0), 4.0, False),
        ("loss", (5.0, 3.0), 3.0, False),
        ("loss", (5.0, 3.0), 2.0, True),
        ("loss", (math.nan,), 9.0, True),
        ("loss", (), math.nan, False),
        ("loss", (9.0,), -math.inf, False),
        ("bleu", (20.0,), 21.0, True),
        ("bleu", (20.0,), 19.0, False),
    ],
    ids=str,
)
def test_best_is_better_than_all_before(best_by, before, value, is_best):
    record = {f"val_{best_by}": value}
    assert history(best_by, *before).is_best(record) is is_best


@pytest.mark.parametrize(
    ("values", "expected"),
    [((), 0), ((3.0,), 0), ((3.0, 4.0), 1), ((3.0, 4.0, 3.0), 2)],
    ids=str,
)
def test_validations_since_the_best_are_counted(values, expected):
    assert history("loss", *values).since_best() == expected
    assert history("bleu", *(-value for value in values)).since_best() == (
        expected
    )


def test_files_hold_the_records(tmp_path):
    result = RunHistory(tmp_path)
    result.records = [{"epoch": 1, "step": 4, "val_loss": 0.5}]
    result.write()
    assert json.loads((tmp_path / "history.json").read_text()) == result.records
    assert read_training_table(tmp_path / "training.csv") == result.records
