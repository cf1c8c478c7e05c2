"""Sections of settings: what a key says of itself is what is checked."""

import dataclasses

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.schema import check_fields
from relative_attention.schema import field_value
from relative_attention.schema import key
from relative_attention.schema import read_section


@dataclasses.dataclass(frozen=True)
class Oven:
    """A section with a key of every kind."""

    degrees: int | str = key(
        180, at_least=50, at_most=1000, choices=("grill",), may_change=True
    )
    hours: float | None = key(None, is_positive=True)
    rate: float = key(0.5, is_fraction=True)
    fan: bool = key(True)
    shelf: str = key("top", choices=("top", "bottom"))


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("degrees", 200, 200),
        ("degrees", "grill", "grill"),
        ("hours", 2, 2.0),
        ("hours", None, None),
        # YAML reads this one as a string.
        ("hours", "1e-3", 0.001),
        ("rate", 0, 0.0),
        ("fan", False, False),
    ],
)
def test_value_is_converted_to_its_type(name, value, expected):
    taken = field_value(Oven, "oven.", name, value)
    assert taken == expected
    assert type(taken) is type(expected)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("degrees", 1.5, "int or str. Received: 1.5."),
        ("degrees", True, "int or str. Received: True."),
        ("fan", 1, "bool. Received: 1."),
        ("shelf", 3, "str. Received: 3. In YAML, put it in quotes."),
        ("degrees", 1001, "at most 1,000. Received: 1001."),
        ("degrees", "gril", "a number or one of grill. Received: 'gril'."),
        ("hours", 0, "positive. Received: 0.0."),
        ("rate", 1, "in [0, 1). Received: 1.0."),
        ("rate", -0.1, "in [0, 1). Received: -0.1."),
    ],
)
def test_wrong_type_or_value_out_of_bounds_is_refused(name, value, message):
    with pytest.raises(ra.InputError) as raised:
        read_section(Oven, "oven", {name: value})
    assert str(raised.value).startswith(f"`oven.{name}` must be {message}")


def test_bounds_are_inclusive():
    mapping = {"degrees": 50, "rate": 0, "hours": 1e-9}
    assert read_section(Oven, "oven", mapping) == Oven(50, 1e-9, 0.0)
    assert read_section(Oven, "oven", {}) == Oven()


def test_arguments_are_checked_as_values_of_files_are():
    oven = Oven(np.int64(200), np.float32(0.5), fan=np.True_)
    check_fields(oven)
    types = [type(value) for value in vars(oven).values()]
    assert types == [int, float, float, bool, str]
    with pytest.raises(ValueError) as raised:
        check_fields(Oven(hours="2"))
    assert str(raised.value) == (
        "`hours` must be float or None. Received: hours='2'."
    )
    with pytest.raises(ValueError, match="at least 50. Received: degrees=49."):
        check_fields(Oven(degrees=49))
