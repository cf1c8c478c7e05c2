"""Sections of settings: what a key says of itself is what is checked."""

import dataclasses

import pytest

import relative_attention as ra
from relative_attention.settings import Key
from relative_attention.settings import check_mapping
from relative_attention.settings import check_section
from relative_attention.settings import field_value
from relative_attention.settings import key
from relative_attention.settings import keys_of
from relative_attention.settings import read_section
from relative_attention.settings import types_of
from relative_attention.settings import unknown


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


def test_key_holds_what_it_was_declared_with():
    keys = keys_of(Oven)
    assert list(keys) == ["degrees", "hours", "rate", "fan", "shelf"]
    assert keys["degrees"] == Key(50, 1000, choices=("grill",), may_change=True)
    assert Oven() == Oven(180, None, 0.5, True, "top")


def test_types_are_those_of_the_annotation():
    assert types_of(Oven, "oven.", "degrees") == (int, str)
    assert types_of(Oven, "oven.", "hours") == (float, type(None))
    assert types_of(Oven, "oven.", "fan") == (bool,)
    with pytest.raises(ra.InputError) as raised:
        types_of(Oven, "oven.", "shelv")
    assert str(raised.value) == (
        "Unknown key 'oven.shelv'. Did you mean 'oven.shelf'? Known: "
        "oven.degrees, oven.hours, oven.rate, oven.fan, oven.shelf."
    )


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
def test_value_is_taken_as_its_type(name, value, expected):
    taken = field_value(Oven, "oven.", name, value)
    assert taken == expected
    assert type(taken) is type(expected)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("degrees", 1.5, "`oven.degrees` must be int or str. Received: 1.5."),
        ("degrees", True, "`oven.degrees` must be int or str."),
        ("hours", "long", "`oven.hours` must be float or null."),
        ("hours", True, "`oven.hours` must be float or null."),
        ("hours", float("nan"), "`oven.hours` must be a finite number."),
        ("fan", 1, "`oven.fan` must be bool. Received: 1."),
        ("shelf", 3, "`oven.shelf` must be str. Received: 3. In YAML, put"),
        ("degrees", 2**31, "`oven.degrees` must be at most 2,147,483,647."),
    ],
)
def test_value_of_another_type_is_refused(name, value, message):
    with pytest.raises(ra.InputError) as raised:
        field_value(Oven, "oven.", name, value)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"degrees": 49}, "`oven.degrees` must be at least 50. Received: 49."),
        (
            {"degrees": 1001},
            "`oven.degrees` must be at most 1,000. Received: 1001.",
        ),
        (
            {"degrees": "gril"},
            "`oven.degrees` must be a number or one of grill. "
            "Received: 'gril'.",
        ),
        ({"hours": 0}, "`oven.hours` must be positive. Received: 0.0."),
        ({"rate": 1}, "`oven.rate` must be in [0, 1). Received: 1.0."),
        ({"rate": -0.1}, "`oven.rate` must be in [0, 1). Received: -0.1."),
        (
            {"shelf": "middle"},
            "`oven.shelf` must be one of top, bottom. Received: 'middle'.",
        ),
    ],
    ids=str,
)
def test_value_out_of_bounds_is_refused(value, message):
    with pytest.raises(ra.InputError) as raised:
        read_section(Oven, "oven", value)
    assert str(raised.value) == message
    with pytest.raises(ra.InputError):
        check_section(Oven(**value), "oven")


def test_bounds_themselves_are_within():
    mapping = {"degrees": 50, "rate": 0, "hours": 1e-9}
    assert read_section(Oven, "oven", mapping) == Oven(50, 1e-9, 0.0)
    assert read_section(Oven, "oven", {}) == Oven()


def test_section_must_be_a_mapping():
    assert check_mapping(None, "oven") == {}
    assert check_mapping({"a": 1}, "oven") == {"a": 1}
    with pytest.raises(ra.InputError, match="`oven` must hold `key: value`"):
        check_mapping(3, "oven")


def test_unknown_name_gets_the_nearest_one():
    assert unknown("tool", "knive", ["fork", "knife"]) == (
        "Unknown tool 'knive'. Did you mean 'knife'? Known: fork, knife."
    )
    # Whatever a file holds is cut short.
    assert len(unknown("tool", "x" * 9999, ["fork"])) < 300
