"""What `results.json` keeps of a curve is what the picture shows."""

from relative_attention.plot.training_curve import _PANELS
from relative_attention.runs.results import _rounded
from relative_attention.training.training_table import CURVE_COLUMNS


def test_every_line_of_the_picture_is_kept():
    drawn = {name for _, lines in _PANELS for name in lines}
    assert set(CURVE_COLUMNS) == drawn


def test_small_rates_keep_their_digits():
    assert _rounded(0.000123456) == 0.00012346
    assert _rounded(1.23456789) == 1.2346
    assert _rounded(0.0) == 0.0
